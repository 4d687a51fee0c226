#include "kv/page_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::kv {

PageTable::PageTable(PagePool& pool, int64_t tokens_max, Label label)
    : pool_(&pool), page_tokens_(pool.layout().page_tokens), label_(label) {
  const auto pages = static_cast<size_t>(pool.pages_for(tokens_max));
  leases_.reserve(pages);
  ids_.reserve(pages);
}

PageTable::PageTable(PagePool& pool, int64_t tokens_max, Reservation promise, Label label)
    : PageTable(pool, tokens_max, label) {
  promise_ = std::move(promise);
}

bool PageTable::promise(int64_t tokens) {
  const int32_t missing = pool_->pages_for(tokens) - static_cast<int32_t>(ids_.size());
  if (missing <= promise_.pages()) return true;
  BH_CHECK(promise_.pages() == 0, "one promise at a time");
  promise_ = pool_->reserve(missing);
  return promise_.pages() == missing;
}

bool PageTable::cover(int64_t tokens) {
  while (covered_tokens() < tokens) {
    if (promise_.pages() == 0) promise_ = pool_->reserve(1);
    if (promise_.pages() == 0) return false;
    append(promise_.take(label_, static_cast<Place>(ids_.size())));
  }
  return true;
}

void PageTable::relabel(Label label) {
  label_ = label;
  for (Lease& lease : leases_) pool_->relabel(lease, label);
}

void PageTable::append(Lease lease) {
  ids_.push_back(lease.page());
  leases_.push_back(std::move(lease));
}

void PageTable::replace(size_t index, Lease lease) {
  ids_[index] = lease.page();
  leases_[index] = std::move(lease);
}

void PageTable::clear() {
  leases_.clear();
  ids_.clear();
  promise_.release();
  chain_ = {};
  stamp_trail_ = {};
  trusted_ = true;
}

}  // namespace bulkhead::kv
