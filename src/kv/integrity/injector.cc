#include "kv/integrity/injector.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace bulkhead::kv::integrity {
namespace {

constexpr std::array<std::pair<Fault, std::string_view>, kFaults> kNames = {{
    {Fault::kStaleMapping, "stale_mapping"},
    {Fault::kOverwrittenEntry, "overwritten_entry"},
    {Fault::kOutOfRangeId, "out_of_range_id"},
    {Fault::kWrongOrder, "wrong_order"},
    {Fault::kPermutedTable, "permuted_table"},
    {Fault::kDoubleAllocation, "double_allocation"},
    {Fault::kMissedReference, "missed_reference"},
    {Fault::kTagFlip, "tag_flip"},
    {Fault::kWrongLabel, "wrong_label"},
    {Fault::kPageFlip, "page_flip"},
    {Fault::kTailFlip, "tail_flip"},
}};

}  // namespace

std::string_view to_string(Fault fault) {
  for (const auto& [one, name] : kNames) {
    if (one == fault) return name;
  }
  return "unknown";
}

std::optional<Fault> parse_fault(std::string_view name) {
  for (const auto& [fault, known] : kNames) {
    if (known == name) return fault;
  }
  return std::nullopt;
}

void Injector::order(Fault fault) {
  const std::lock_guard lock(mutex_);
  orders_.push_back(fault);
  waiting_count_.store(orders_.size(), std::memory_order_release);
}

std::vector<Injector::Done> Injector::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void Injector::record(Fault fault, uint64_t reader, PageId page) {
  const std::lock_guard lock(mutex_);
  done_.push_back({fault, reader, page});
}

void Injector::after_snapshot_build(std::span<Reading> readings) {
  if (waiting() == 0 || readings.empty()) return;
  BH_CHECK(pool_ != nullptr, "an injector belongs to a pool");
  Fault fault{};
  {
    const std::lock_guard lock(mutex_);
    fault = orders_.front();
  }
  if (!carry_out(fault, readings)) return;
  const std::lock_guard lock(mutex_);
  orders_.pop_front();
  waiting_count_.store(orders_.size(), std::memory_order_release);
}

bool Injector::carry_out(Fault fault, std::span<Reading> readings) {
  switch (fault) {
    case Fault::kStaleMapping:
    case Fault::kOverwrittenEntry:
    case Fault::kOutOfRangeId:
    case Fault::kWrongOrder:
      return damage_snapshot(fault, readings);
    case Fault::kPermutedTable:
      return exchange_in_table(readings);
    case Fault::kPageFlip:
      return flip_page();
    case Fault::kTailFlip:
      return flip_tail(readings);
    default:
      return damage_books(fault, readings);
  }
}

Reading* Injector::victim(std::span<Reading> readings, size_t pages) {
  const size_t start = rng_.below(readings.size());
  for (size_t i = 0; i < readings.size(); ++i) {
    Reading& one = readings[(start + i) % readings.size()];
    if (one.pages.size() >= pages) return &one;
  }
  return nullptr;
}

// --- what a step reads

bool Injector::replace(Reading& reading, size_t entry, PageId page, Fault fault) {
  snapshot_.assign(reading.pages.begin(), reading.pages.end());
  snapshot_[entry] = page;
  reading.pages = snapshot_;
  record(fault, reading.reader, page);
  return true;
}

// One that has been used: with the tag of a life that is over.
std::optional<PageId> Injector::free_page() const {
  if (pool_->free_ == 0) return std::nullopt;
  const size_t last = pool_->free_head_ + static_cast<size_t>(pool_->free_) - 1;
  return pool_->free_ring_[last % pool_->free_ring_.size()];
}

bool Injector::damage_snapshot(Fault fault, std::span<Reading> readings) {
  Reading* reading = victim(readings, fault == Fault::kWrongOrder ? 2 : 1);
  if (reading == nullptr) return false;
  const size_t entry = rng_.below(reading->pages.size());
  const PageId before = reading->pages[entry];
  if (fault == Fault::kStaleMapping) {
    const auto page = free_page();
    return page && replace(*reading, entry, *page, fault);
  }
  if (fault == Fault::kOutOfRangeId) {
    const PageId beyond = pool_->counts().total + static_cast<PageId>(rng_.below(1000));
    return replace(*reading, entry, rng_.below(2) == 0 ? beyond : -1 - before, fault);
  }
  if (fault == Fault::kWrongOrder) {
    const size_t other = (entry + 1) % reading->pages.size();
    const PageId first = reading->pages[other];
    replace(*reading, entry, first, fault);
    snapshot_[other] = before;
    return true;
  }
  for (const Reading& other : readings) {
    for (const PageId page : other.pages) {
      const bool own =
          std::find(reading->pages.begin(), reading->pages.end(), page) != reading->pages.end();
      if (&other != reading && !own) return replace(*reading, entry, page, fault);
    }
  }
  // Nobody else is in this step; somebody may hold a page all the same.
  for (PageId page = 0; page < pool_->counts().total; ++page) {
    const bool own =
        std::find(reading->pages.begin(), reading->pages.end(), page) != reading->pages.end();
    const bool held = pool_->lease_count_[static_cast<size_t>(page)] > 0;
    if (held && !own) return replace(*reading, entry, page, fault);
  }
  return false;
}

// --- tables and books

bool Injector::exchange_in_table(std::span<Reading> readings) {
  Reading* reading = victim(readings, 3);  // the last is still being written
  if (reading == nullptr) return false;
  // Both lists are the table's own.
  auto* leases = const_cast<Lease*>(reading->expected.data());
  auto* pages = const_cast<PageId*>(reading->pages.data());
  std::swap(leases[0], leases[1]);
  std::swap(pages[0], pages[1]);
  record(Fault::kPermutedTable, reading->reader, pages[0]);
  return true;
}

bool Injector::damage_books(Fault fault, std::span<Reading> readings) {
  Reading* reading = victim(readings, 1);
  if (reading == nullptr) return false;
  const PageId page = reading->pages[rng_.below(reading->pages.size())];
  // Where the books are wrong already, nobody holds the page.
  if (pool_->lease_count_[static_cast<size_t>(page)] == 0) return false;
  switch (fault) {
    case Fault::kDoubleAllocation:
      hand_out_next(page);
      break;
    case Fault::kMissedReference:
      lose_reference(page);
      break;
    case Fault::kTagFlip:
      pool_->tags_[static_cast<size_t>(page)] ^= Tag{1} << rng_.below(64);
      break;
    default: {
      Tracker& tracker = pool_->integrity();
      tracker.set_label(page, tracker.label(page) ^ (Label{1} << rng_.below(32)));
      break;
    }
  }
  record(fault, reading->reader, page);
  return true;
}

// As if the page had been freed without its tag being changed.
void Injector::hand_out_next(PageId page) {
  const auto index = static_cast<size_t>(page);
  PagePool& pool = *pool_;
  BH_CHECK(static_cast<size_t>(pool.free_) < pool.free_ring_.size(), "a held page is not free");
  if (pool.is_cached_only(page)) pool.add_cached(-1);
  pool.lease_count_[index] = 0;
  pool.indexed_[index] = 0;
  pool.free_head_ = (pool.free_head_ + pool.free_ring_.size() - 1) % pool.free_ring_.size();
  pool.free_ring_[pool.free_head_] = page;
  ++pool.free_;
  pool.available_.store(pool.free_ - pool.reserved_, std::memory_order_relaxed);
}

// As if a holder had dropped a lease that it never took.
void Injector::lose_reference(PageId page) {
  const auto index = static_cast<size_t>(page);
  PagePool& pool = *pool_;
  if (pool.is_cached_only(page)) pool.add_cached(-1);
  if (--pool.lease_count_[index] > 0) {
    if (pool.is_cached_only(page)) pool.add_cached(1);
    return;
  }
  pool.indexed_[index] = 0;
  pool.renew_tag(page);
  pool.tracker_->note(page, Transition::kFreed, pool.tags_[index]);
  pool.push_free(page);
}

bool Injector::flip_tail(std::span<Reading> readings) {
  constexpr int kTries = 256;
  Reading* reading = victim(readings, 1);
  if (reading == nullptr) return false;
  const PageId page = reading->pages.back();
  const size_t bytes = pool_->layout().page_bytes();
  std::byte* const begin = pool_->arena_.data() + static_cast<size_t>(page) * bytes;
  // A byte that is nothing is mostly one that was not written yet.
  std::byte* target = begin + rng_.below(bytes);
  for (int i = 0; i < kTries && *target == std::byte{0}; ++i) target = begin + rng_.below(bytes);
  *target ^= std::byte{1} << rng_.below(8);
  record(Fault::kTailFlip, reading->reader, page);
  return true;
}

bool Injector::flip_page() {
  PagePool& pool = *pool_;
  const auto pages = static_cast<size_t>(pool.counts().total);
  const size_t start = rng_.below(pages);
  for (size_t i = 0; i < pages; ++i) {
    const size_t page = (start + i) % pages;
    // Before its digest is taken nobody could tell.
    const bool sealed = pool.tracker_->is_sealed(static_cast<PageId>(page));
    if (pool.indexed_[page] == 0 || (pool.tracker_->is_on() && !sealed)) continue;
    const size_t bytes = pool.layout().page_bytes();
    pool.arena_.data()[page * bytes + rng_.below(bytes)] ^= std::byte{1} << rng_.below(8);
    record(Fault::kPageFlip, 0, static_cast<PageId>(page));
    return true;
  }
  return false;
}

}  // namespace bulkhead::kv::integrity
