// Whether the pages that a step reads are the ones it was given: the port that pools call.
//
// A tracker belongs to one page pool and is chosen once, when the pool is made. With mode `off` it
// does nothing and keeps nothing. Otherwise it keeps, for each page, its tenant's label, the place
// that it was handed out for, its stamp, the digest it was sealed with, and its last transitions;
// what is expected never comes from here but from whoever reads: from its leases, and for the place
// from the number of the entry.
//
// Threads: step thread only, except mode() and report(), which any thread may call. Invariants:
// check() and the record functions allocate nothing; only mismatches allocate (their story).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "kv/integrity/mode.h"
#include "kv/lease.h"

namespace bulkhead::kv::integrity {

// One sequence's pages as a step reads them, beside what it should read, entry by entry.
struct Reading {
  std::span<const PageId> pages;    // the very memory that attention reads
  std::span<const Lease> expected;  // as recorded by whoever produced the pages
  Label label = 0;                  // of the reader's tenant
  uint64_t reader = 0;              // its request
  Place first = 0;                  // the place of the first entry; the others follow
};

// 128 bits that say what a page holds: stamp.h makes them of text and place, a digest of bytes.
struct Mark {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Mark&) const = default;
};

// Where the stamps of a sequence go on from: what those of its first `pages` pages, all of them
// full, come to.
struct StampTrail {
  Mark chain;
  size_t pages = 0;
};

// One moment of a page's life.
struct Moment {
  uint64_t number = 0;  // counts all transitions of the pool; 0: none
  Transition what = Transition::kAllocated;
  Tag tag = 0;  // since then
};
constexpr size_t kMomentsKept = 8;

// What was found to be wrong.
struct Mismatch {
  Kind kind = Kind::kTag;
  Phase phase = Phase::kBefore;
  uint64_t reader = 0;  // request; 0: none
  int64_t entry = -1;   // of its page table; -1: none
  PageId page = -1;     // that was found
  Tag found_tag = 0;
  Label found_label = 0;
  Place found_place = kNoPlace;  // filled in
  PageId expected_page = -1;
  Tag expected_tag = 0;
  Label expected_label = 0;
  std::vector<Moment> history = {};  // of the page that was expected, oldest first; filled in
  uint64_t number = 0;               // counts the pool's events from 1; filled in
};

constexpr size_t kEventsKept = 64;

struct Report {
  Mode mode = Mode::kOff;
  uint64_t checks = 0;         // passes over the pages of a step
  uint64_t pages_checked = 0;  // entries compared
  uint64_t pages_scrubbed = 0;
  std::array<uint64_t, kKinds> mismatches{};  // by Kind
  std::vector<PageId> quarantined = {};
  std::vector<Mismatch> events = {};  // the last kEventsKept, oldest first
};

struct Options {
  Mode mode = Mode::kOff;
  std::string pool = {};           // "decode": for the log
  base::Logger* logger = nullptr;  // outlives the pool
  Mark stamp_key = {};             // the same in every pool of a deployment
};

class Tracker {
 public:
  virtual ~Tracker() = default;
  virtual Mode mode() const = 0;
  bool is_on() const { return mode() != Mode::kOff; }

  // Compares every entry of every reading: same page, tag and label, the label that of the reader
  // or 0, and a page that was handed out for the entry's place. Sets bad[i] for each reading with a
  // mismatch and returns how many there are. Each one is counted and logged.
  virtual size_t check(std::span<const Reading> readings, Phase phase, std::span<uint8_t> bad) = 0;
  // Found by somebody else: counts and logs.
  virtual void found(Mismatch what) = 0;

  // The pool's own notes.
  virtual void note(PageId page, Transition what, Tag tag) = 0;
  virtual void set_label(PageId page, Label label) = 0;
  virtual Label label(PageId page) const = 0;
  virtual void set_place(PageId page, Place place) = 0;
  virtual Place place(PageId page) const = 0;

  // What a page holds, once it is written; forgotten when the page is freed. Nothing: not known.
  virtual void set_stamp(PageId page, const Mark& stamp) = 0;
  virtual std::optional<Mark> stamp(PageId page) const = 0;
  // Nobody writes the page any more, so its digest may be taken. That takes time, so it is done
  // piece by piece: next_to_seal() gives such pages, oldest first, to whoever calls seal() then.
  virtual void want_seal(PageId page) = 0;
  virtual std::optional<PageId> next_to_seal() = 0;
  virtual void seal(PageId page, std::span<const std::byte> bytes) = 0;
  // False when a sealed page has other bytes than it was sealed with.
  virtual bool scrub(PageId page, std::span<const std::byte> bytes) = 0;
  virtual bool is_sealed(PageId page) const = 0;
  virtual Mark stamp_key() const = 0;

  virtual Report report() const = 0;
};

// `tags`: of the pool, by page; outlives the tracker.
std::unique_ptr<Tracker> make_tracker(Options options, std::span<const Tag> tags);

}  // namespace bulkhead::kv::integrity
