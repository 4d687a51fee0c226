#include "kv/page_table.h"

namespace bulkhead::kv {

std::optional<PageTable> PageTable::create(PagePool& pool, int64_t tokens_max) {
  const int32_t pages = pool.pages_for(tokens_max);
  PageTable table;
  table.promise_ = pool.reserve(pages);
  if (table.promise_.pages() == 0) return std::nullopt;
  table.page_tokens_ = pool.layout().page_tokens;
  table.leases_.reserve(static_cast<size_t>(pages));
  table.ids_.reserve(static_cast<size_t>(pages));
  return table;
}

void PageTable::cover(int64_t tokens) {
  while (covered_tokens() < tokens) {
    leases_.push_back(promise_.take());
    ids_.push_back(leases_.back().page());
  }
}

void PageTable::clear() {
  leases_.clear();
  ids_.clear();
  promise_.release();
}

}  // namespace bulkhead::kv
