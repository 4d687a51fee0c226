// Failures that others had with prefix indexes, by their number in docs/cases.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/rng.h"
#include "kv/invariants.h"
#include "kv/prefix_index.h"

namespace bulkhead::kv {
namespace {

using Tokens = std::vector<int32_t>;

constexpr Tenant kTenants[] = {{1}, {2}};

PageLayout layout_of(int32_t page_tokens) {
  PageLayout layout;
  layout.page_tokens = page_tokens;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 16;
  return layout;
}

struct Bench {
  Bench(int32_t page_tokens, int32_t pages)
      : pool(std::move(PagePool::create(layout_of(page_tokens), {.pages = pages})).value()),
        index(*pool, {.identity = "m", .secret = {9}}) {}

  std::unique_ptr<PagePool> pool;
  PrefixIndex index;
};

Tokens random_tokens(base::Rng& rng, size_t most) {
  Tokens tokens(1 + rng.below(most));
  // Two values only, so that starts agree for a while and then do not.
  for (auto& token : tokens) token = static_cast<int32_t>(rng.below(16) == 0);
  return tokens;
}

size_t common_start(const Tokens& a, const Tokens& b) {
  size_t length = 0;
  while (length < a.size() && length < b.size() && a[length] == b[length]) ++length;
  return length;
}

// C060
TEST(PrefixCases, APageIsFoundByExactlyTheTokensUpToItsOwnEnd) {
  for (const int32_t page_tokens : {16, 32, 64}) {
    base::Rng rng(static_cast<uint64_t>(page_tokens));
    Bench bench(page_tokens, 400);
    std::vector<Tokens> known;
    for (int round = 0; round < 60; ++round) {
      const Tokens tokens = random_tokens(rng, 200);
      size_t best = 0;
      for (const Tokens& one : known) {
        const size_t whole =
            one.size() / static_cast<size_t>(page_tokens) * static_cast<size_t>(page_tokens);
        best = std::max(best, std::min(common_start(one, tokens), whole));
      }
      best = std::min(best, tokens.size() - 1);
      PageTable table(*bench.pool, static_cast<int64_t>(tokens.size()));
      const int32_t found = bench.index.match(kTenants[0], tokens, table);
      EXPECT_EQ(found, static_cast<int32_t>(best) / page_tokens * page_tokens);
      ASSERT_TRUE(table.cover(static_cast<int64_t>(tokens.size())));
      bench.index.insert(kTenants[0], tokens, table);
      known.push_back(tokens);
    }
  }
}

// What the pool counts against what a walk over every lease finds.
void expect_true_counts(const Bench& bench, const std::vector<PageTable>& tables) {
  std::set<PageId> in_use;
  for (const PageTable& table : tables) {
    for (const Lease& lease : table.leases()) in_use.insert(lease.page());
  }
  int32_t cached_alone = 0;
  for (const PageRef& ref : bench.index.holders()) {
    cached_alone += in_use.count(ref.page) == 0 ? 1 : 0;
  }
  const PageCounts counts = bench.pool->counts();
  ASSERT_EQ(counts.cached, cached_alone);
  ASSERT_EQ(counts.available + counts.cached + static_cast<int32_t>(in_use.size()), counts.total);
}

// C044, C047
TEST(PrefixCases, CountsAreThoseOfAWalkAfterEveryOperation) {
  base::Rng rng(77);
  Bench bench(16, 32);
  std::vector<PageTable> tables;
  std::vector<std::pair<Tenant, Tokens>> texts;  // beside `tables`
  for (int op = 0; op < 100'000; ++op) {
    const uint64_t kind = rng.below(10);
    if (kind < 4 && tables.size() < 12) {
      const Tenant& tenant = kTenants[rng.below(2)];
      Tokens tokens = random_tokens(rng, 80);
      const auto length = static_cast<int64_t>(tokens.size());
      PageTable table(*bench.pool, length);
      const int32_t found = bench.index.match(tenant, tokens, table);
      ASSERT_LT(found, length);
      const int32_t missing = bench.pool->pages_for(length) - found / 16;
      if (bench.index.make_room(missing) && table.cover(length)) {
        tables.push_back(std::move(table));
        texts.emplace_back(tenant, std::move(tokens));
      }
    } else if (kind < 6 && !tables.empty()) {
      const size_t at = rng.below(tables.size());
      bench.index.insert(texts[at].first, texts[at].second, tables[at]);
    } else if (kind < 9 && !tables.empty()) {
      const auto at = static_cast<std::ptrdiff_t>(rng.below(tables.size()));
      tables.erase(tables.begin() + at);
      texts.erase(texts.begin() + at);
    } else if (rng.below(50) == 0) {
      bench.index.clear();
    } else {
      bench.index.make_room(static_cast<int32_t>(rng.below(8)));
    }
    ASSERT_NO_FATAL_FAILURE(expect_true_counts(bench, tables)) << "operation " << op;
  }
  tables.clear();
  bench.index.clear();
  EXPECT_TRUE(validate_idle(bench.pool->snapshot()).empty());
}

}  // namespace
}  // namespace bulkhead::kv
