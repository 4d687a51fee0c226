// What the prefix index costs per page while it grows from 1 to 100,000 pages: one CSV line a size.
//
//     cmake --build --preset release --target bench_prefix_index
//     build/release/bin/bench_prefix_index > prefix-index.csv
//
// Threads: one. Every figure is the median of rounds, in nanoseconds per page of 64 tokens.
#include "kv/prefix_index.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "base/rng.h"

namespace {

using namespace bulkhead;
using Clock = std::chrono::steady_clock;

constexpr int32_t kPageTokens = 64;
constexpr int32_t kPromptPages = 16;
constexpr int32_t kRounds = 200;
constexpr kv::Tenant kTenant{1};

using Tokens = std::vector<int32_t>;

Tokens prompt(uint64_t number) {
  Tokens tokens(static_cast<size_t>(kPromptPages) * kPageTokens + 1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(base::random_bits(7, number, i) % 50000);
  }
  return tokens;
}

double nanoseconds_per_page(Clock::time_point start, int32_t pages) {
  return static_cast<double>((Clock::now() - start).count()) / pages;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void add(kv::PagePool& pool, kv::PrefixIndex& index, const Tokens& tokens, int32_t pages) {
  const auto whole = static_cast<size_t>(pages) * kPageTokens;
  kv::PageTable table(pool, static_cast<int64_t>(whole));
  index.make_room(pages);
  if (!table.cover(static_cast<int64_t>(whole))) return;
  index.insert(kTenant, std::span(tokens).first(whole), table);
}

struct Costs {
  std::vector<double> match;
  std::vector<double> insert;
  std::vector<double> evict;
};

// One prompt found, one new prompt put in and, for it, as many pages given up.
void measure_once(kv::PagePool& pool, kv::PrefixIndex& index, const Tokens& known, int32_t pages,
                  const Tokens& fresh, Costs& costs) {
  {
    kv::PageTable table(pool, static_cast<int64_t>(known.size()));
    const auto start = Clock::now();
    const int32_t found = index.match(kTenant, known, table);
    if (found != pages * kPageTokens) std::fprintf(stderr, "found %d tokens\n", found);
    costs.match.push_back(nanoseconds_per_page(start, pages));
  }
  auto start = Clock::now();
  index.make_room(pages);
  costs.evict.push_back(nanoseconds_per_page(start, pages));
  kv::PageTable table(pool, static_cast<int64_t>(fresh.size()));
  const auto whole = static_cast<size_t>(pages) * kPageTokens;
  if (!table.cover(static_cast<int64_t>(whole))) return;
  start = Clock::now();
  index.insert(kTenant, std::span(fresh).first(whole), table);
  costs.insert.push_back(nanoseconds_per_page(start, pages));
}

void measure(int32_t indexed) {
  kv::PageLayout layout;
  layout.page_tokens = kPageTokens;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 1;
  const int32_t pages = std::min(indexed, kPromptPages);
  auto pool = kv::PagePool::create(layout, {.pages = indexed});
  if (!pool.ok()) return;
  kv::PrefixIndex index(**pool, {.identity = "bench", .secret = {1}});
  Tokens known;
  uint64_t number = 0;
  const auto next = [&] {
    Tokens tokens = prompt(++number);
    tokens.resize(static_cast<size_t>(pages) * kPageTokens + 1);
    return tokens;
  };
  while (index.size() + pages <= indexed) add(**pool, index, known = next(), pages);
  Costs costs;
  for (int32_t round = 0; round < kRounds; ++round) {
    const Tokens fresh = next();
    measure_once(**pool, index, known, pages, fresh, costs);
    known = fresh;
  }
  std::printf("%d,%.0f,%.0f,%.0f\n", indexed, median(costs.match), median(costs.insert),
              median(costs.evict));
}

}  // namespace

int main() {
  std::printf("indexed_pages,match_ns_per_page,insert_ns_per_page,evict_ns_per_page\n");
  for (int32_t indexed = 1; indexed <= 100000; indexed *= 10) measure(indexed);
  return 0;
}
