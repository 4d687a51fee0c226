// Which page holds which stretch of one sequence, and the promise of the pages it needs next.
//
// Threads: step thread only. Invariants: entry i holds positions [i * page_tokens, (i+1) *
// page_tokens), and its page was handed out for place i, here or in the table that it is shared
// with; every entry is a lease, so a page named here cannot be reused; shared pages come first and
// are never written; nothing here allocates after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"
#include "kv/prefix_key.h"

namespace bulkhead::kv {

class PageTable {
 public:
  PageTable() = default;
  // Empty, for a sequence that never has more than `tokens_max` tokens; its pages will hold content
  // of this label.
  PageTable(PagePool& pool, int64_t tokens_max, Label label = 0);
  // The same, with pages that were promised before.
  PageTable(PagePool& pool, int64_t tokens_max, Reservation promise, Label label = 0);
  PageTable(PageTable&&) noexcept = default;
  PageTable& operator=(PageTable&&) noexcept = default;

  // Promises the pages that positions [0, tokens) still need; all or nothing.
  bool promise(int64_t tokens);
  // Takes pages until positions [0, tokens) have one, promised ones first. False when the pool has
  // none left; what was taken stays.
  bool cover(int64_t tokens);

  std::span<const PageId> pages() const { return ids_; }
  std::span<const Lease> leases() const { return leases_; }
  Label label() const { return label_; }
  // The sequence's tenant became known: of the pages it has and of those to come.
  void relabel(Label label);
  // Something was found to be wrong with what it names: the prefix index takes none of its pages.
  void distrust() { trusted_ = false; }
  bool trusted() const { return trusted_; }
  // What integrity/stamp.h knows of the text so far.
  const integrity::StampTrail& stamp_trail() const { return stamp_trail_; }
  void set_stamp_trail(const integrity::StampTrail& trail) { stamp_trail_ = trail; }
  int64_t covered_tokens() const { return static_cast<int64_t>(ids_.size()) * page_tokens_; }
  // Drops every lease and what is left of the promise.
  void clear();

 private:
  friend class PrefixIndex;
  void append(Lease lease);
  // The same content in another page.
  void replace(size_t index, Lease lease);

  PagePool* pool_ = nullptr;
  int32_t page_tokens_ = 0;
  Label label_ = 0;
  Reservation promise_;
  std::vector<Lease> leases_;
  std::vector<PageId> ids_;  // the page of each lease, in the form a model reads
  bool trusted_ = true;
  PrefixChain chain_;  // how much of the table the prefix index knows
  integrity::StampTrail stamp_trail_;
};

}  // namespace bulkhead::kv
