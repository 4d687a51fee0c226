// A small page pool with its tracker on, and damage to a table of it, for tests.
//
// Threads: one.
#pragma once

#include <memory>
#include <utility>

#include "base/check.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"

namespace bulkhead::kv::integrity::testing {

class TrackedPool {
 public:
  // Pages of 16 tokens.
  explicit TrackedPool(int32_t pages, Mode mode = Mode::kAbort, base::Logger* logger = nullptr,
                       FaultPort* faults = nullptr) {
    PageLayout layout;
    layout.page_tokens = 16;
    layout.layers = 1;
    layout.kv_heads = 1;
    layout.head_dim = 16;
    PagePoolOptions options;
    options.pages = pages;
    options.boot_nonce = 7;
    options.integrity.mode = mode;
    options.integrity.pool = "test";
    options.integrity.logger = logger;
    options.faults = faults;
    auto made = PagePool::create(layout, options);
    BH_CHECK(made.ok(), "a small pool");
    pool_ = std::move(made).value();
  }

  PagePool& operator*() { return *pool_; }
  PagePool* operator->() { return pool_.get(); }
  PageTable table(int64_t tokens, Label label = 0) {
    PageTable table(*pool_, tokens, label);
    BH_CHECK(table.cover(tokens), "room for the table");
    return table;
  }

 private:
  std::unique_ptr<PagePool> pool_;
};

// Two pages change places in the table, with the leases on them: what no tag tells.
inline void exchange(PageTable& table, size_t one, size_t other) {
  auto* leases = const_cast<Lease*>(table.leases().data());
  auto* pages = const_cast<PageId*>(table.pages().data());
  std::swap(leases[one], leases[other]);
  std::swap(pages[one], pages[other]);
}

}  // namespace bulkhead::kv::integrity::testing
