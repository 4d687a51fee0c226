// Who decides whether a run went well, and remembers what the run did.
//
// Threads: one. Invariant: the first failure stands.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/rng.h"

namespace bulkhead::sim {

// What noticed that something was wrong.
enum class Mechanism : uint8_t {
  kTag,         // before or after a step: the page has another life, or is another one
  kLabel,       // it is another tenant's
  kMisplaced,   // it was given to another place of the text
  kOutOfRange,  // it is none
  kWithdrawn,   // it was withdrawn for somebody else's sake
  kStamp,       // it holds another place or another text
  kScrub,       // its bytes are not those that were sealed
  kNonFinite,   // logits that are no numbers
  kBooks,       // leases and free list contradict each other
  kChecksum,    // of a frame between prefill and decode
  kSequence,    // number or session of such a frame
  kFence,       // a write without a right to it
  kCover,       // bytes missing at the record
  kRecord,      // digest, tag or layout in the record
  kLease,       // nothing was heard of a transfer
  kSession,     // a handoff's connection ended
  kMembership,  // the gateway lost a worker, or a worker its gateway
};
constexpr size_t kMechanisms = static_cast<size_t>(Mechanism::kMembership) + 1;
std::string_view to_string(Mechanism mechanism);
using Noticed = std::array<uint64_t, kMechanisms>;

struct RunStats {
  uint64_t steps = 0;  // of processes
  uint64_t requests = 0;
  uint64_t answered = 0;   // to their end, as alone
  uint64_t cut = 0;        // cancelled or past their deadline
  uint64_t failed = 0;     // with an error of the contract
  uint64_t integrity = 0;  // of those, kv_integrity
  uint64_t lost = 0;       // with the process that had taken them
  uint64_t tokens = 0;     // rows that a decoder ran
  uint64_t answer_tokens = 0;
  uint64_t pages = 0;   // taken from a pool
  uint64_t audits = 0;  // of a pool against everybody who holds its pages
  uint64_t preemptions = 0;
  uint64_t cached_tokens = 0;
  uint64_t evicted_pages = 0;
  uint64_t wrong_rows = 0;    // that a decoder ran and read what is not theirs
  uint64_t wrong_tokens = 0;  // that got out; counted only where that is tolerated
  uint64_t struck = 0;        // faults that were carried out
  uint64_t checks = 0;        // of a step's pages, before and after it
  uint64_t entries = 0;       // compared in them
  Noticed noticed{};
  double virtual_seconds = 0;

  void add(const RunStats& other);
};

class Judge {
 public:
  void fail(std::string what) {
    if (!failure_) failure_ = std::move(what);
  }
  // Something happened: what happens in a run is a function of its seed.
  void note(uint64_t what, uint64_t detail) {
    digest_ = base::mix64(digest_ ^ base::mix64(what ^ base::mix64(detail)));
  }
  const std::optional<std::string>& failure() const { return failure_; }
  uint64_t digest() const { return digest_; }
  RunStats& stats() { return stats_; }

 private:
  std::optional<std::string> failure_;
  uint64_t digest_ = 0;
  RunStats stats_;
};

}  // namespace bulkhead::sim
