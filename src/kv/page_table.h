// Which page holds which stretch of one sequence, and the promise of the pages it may still need.
//
// Threads: step thread only. Invariants: entry i holds positions [i * page_tokens, (i+1) *
// page_tokens); every entry is a lease, so a page named here cannot be reused; the table never
// needs more pages than were promised at admission, so growing cannot fail.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace bulkhead::kv {

class PageTable {
 public:
  // A table that can grow to `tokens_max` tokens; empty when the pool cannot promise that now.
  static std::optional<PageTable> create(PagePool& pool, int64_t tokens_max);

  PageTable() = default;
  PageTable(PageTable&&) noexcept = default;
  PageTable& operator=(PageTable&&) noexcept = default;

  // Takes promised pages until positions [0, tokens) have one.
  void cover(int64_t tokens);
  std::span<const PageId> pages() const { return ids_; }
  std::span<const Lease> leases() const { return leases_; }
  int64_t covered_tokens() const { return static_cast<int64_t>(ids_.size()) * page_tokens_; }
  // Drops every lease and what is left of the promise.
  void clear();

 private:
  int32_t page_tokens_ = 0;
  Reservation promise_;
  std::vector<Lease> leases_;
  std::vector<PageId> ids_;  // the page of each lease, in the form a model reads
};

}  // namespace bulkhead::kv
