// Makes the pages of a running server go wrong on demand, to show that it is noticed.
//
// A pool has one where its options name it (PagePoolOptions::faults): tests, and servers that were
// started with --inject-faults. Each order is carried out in the first step that offers a victim,
// one a step.
//
// Threads: order(), done() and waiting() by any; the rest on the step thread. Invariant: what is
// damaged is listed in done() before the step reads it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "kv/integrity/fault_port.h"
#include "kv/page_pool.h"

namespace bulkhead::kv::integrity {

enum class Fault : uint8_t {
  // In what a step is about to read:
  kStaleMapping,      // an entry names a page that was freed
  kOverwrittenEntry,  // an entry names another sequence's page
  kOutOfRangeId,      // an entry names no page of the pool
  kWrongOrder,        // two entries are exchanged
  // In the sequence's own table, with what it expects:
  kPermutedTable,  // two pages are exchanged: tags cannot tell, their places do
  // In the pool's books:
  kDoubleAllocation,  // a page that is held is the next to be handed out
  kMissedReference,   // a page has one lease less than holders
  kTagFlip,           // a bit of a tag
  kWrongLabel,        // a page's label is another tenant's
  // In the bytes:
  kPageFlip,  // a bit of a sealed page
  kTailFlip,  // a bit of the page that a sequence still writes: nothing tells
};
constexpr size_t kFaults = 11;

std::string_view to_string(Fault fault);  // "stale_mapping", ...
std::optional<Fault> parse_fault(std::string_view name);

class Injector final : public FaultPort {
 public:
  explicit Injector(uint64_t seed = 1) : rng_(seed) {}
  // The pool that names this injector; before its first step.
  void attach(PagePool& pool) { pool_ = &pool; }

  void order(Fault fault);
  size_t waiting() const { return waiting_count_.load(std::memory_order_acquire); }
  struct Done {
    Fault fault = Fault::kStaleMapping;
    uint64_t reader = 0;  // the request whose page it is
    PageId page = -1;     // damaged, or put in an entry
  };
  std::vector<Done> done() const;

  void after_snapshot_build(std::span<Reading> readings) override;

 private:
  bool carry_out(Fault fault, std::span<Reading> readings);
  bool damage_snapshot(Fault fault, std::span<Reading> readings);
  bool damage_books(Fault fault, std::span<Reading> readings);
  bool exchange_in_table(std::span<Reading> readings);
  bool flip_page();
  bool flip_tail(std::span<Reading> readings);
  void hand_out_next(PageId page);
  void lose_reference(PageId page);
  // A reading with at least so many pages; null: there is none.
  Reading* victim(std::span<Reading> readings, size_t pages);
  std::optional<PageId> free_page() const;
  bool replace(Reading& reading, size_t entry, PageId page, Fault fault);
  void record(Fault fault, uint64_t reader, PageId page);

  PagePool* pool_ = nullptr;
  base::Rng rng_;
  std::vector<PageId> snapshot_;  // that the victim of this step reads
  std::atomic<size_t> waiting_count_{0};
  mutable std::mutex mutex_;
  std::deque<Fault> orders_;
  std::vector<Done> done_;
};

}  // namespace bulkhead::kv::integrity
