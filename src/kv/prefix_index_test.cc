#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "kv/integrity/injector.h"

namespace bulkhead::kv {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int32_t kPageTokens = 16;
constexpr Tenant kAlice{1};
constexpr Tenant kBob{2};

PageLayout tiny_layout() {
  PageLayout layout;
  layout.page_tokens = kPageTokens;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 16;
  return layout;
}

Tokens tokens_from(int32_t first, int32_t count) {
  Tokens tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

struct Bench {
  explicit Bench(int32_t pages = 16, PrefixIndexOptions options = {.identity = "m", .secret = {9}},
                 integrity::Mode mode = integrity::Mode::kOff)
      : pool(std::move(
                 PagePool::create(tiny_layout(), {.pages = pages, .integrity = {.mode = mode}}))
                 .value()),
        index(*pool, options) {}

  // A sequence with these tokens in its cache: what it found and what it computed.
  PageTable sequence(const Tenant& tenant, const Tokens& tokens, int32_t* found = nullptr) {
    PageTable table(*pool, static_cast<int64_t>(tokens.size()) + 64);
    const int32_t cached = index.match(tenant, tokens, table);
    if (found != nullptr) *found = cached;
    EXPECT_TRUE(table.cover(static_cast<int64_t>(tokens.size())));
    return table;
  }
  int32_t known(const Tenant& tenant, const Tokens& tokens) {
    int32_t found = 0;
    sequence(tenant, tokens, &found);
    return found;
  }
  void expect_balanced(const std::vector<const PageTable*>& tables) const {
    std::vector<PageRef> holders = index.holders();
    for (const PageTable* table : tables) {
      for (const Lease& lease : table->leases()) holders.push_back(lease.ref());
    }
    const auto found = validate(pool->snapshot(), holders);
    EXPECT_TRUE(found.empty()) << describe(found);
  }

  std::unique_ptr<PagePool> pool;
  PrefixIndex index;
};

TEST(PrefixIndex, FindsTheWholePagesOfAKnownStart) {
  Bench bench;
  const Tokens tokens = tokens_from(100, 40);  // two whole pages and a half
  PageTable first = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens, first);
  EXPECT_EQ(bench.index.size(), 2);
  int32_t found = 0;
  PageTable second = bench.sequence(kAlice, tokens, &found);
  EXPECT_EQ(found, 32);
  EXPECT_EQ(second.pages()[0], first.pages()[0]);
  EXPECT_EQ(second.pages()[1], first.pages()[1]);
  EXPECT_NE(second.pages()[2], first.pages()[2]);
  EXPECT_EQ(second.leases()[1].ref(), first.leases()[1].ref());
  bench.expect_balanced({&first, &second});
}

// C071
TEST(PrefixIndex, LeavesTheLastTokenToBeComputed) {
  Bench bench;
  const Tokens tokens = tokens_from(100, 32);
  PageTable table = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens, table);
  table.clear();
  EXPECT_EQ(bench.known(kAlice, tokens), 16);
  EXPECT_EQ(bench.known(kAlice, tokens_from(100, 33)), 32);
  EXPECT_EQ(bench.known(kAlice, tokens_from(100, 1)), 0);
}

TEST(PrefixIndex, StopsWhereTheTokensDiffer) {
  Bench bench;
  Tokens tokens = tokens_from(0, 64);
  PageTable table = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens, table);
  tokens[20] = 7777;
  EXPECT_EQ(bench.known(kAlice, tokens), 16);
  tokens[0] = 8888;
  EXPECT_EQ(bench.known(kAlice, tokens), 0);
  // The same page's tokens after another start are another page.
  Tokens moved = tokens_from(16, 48);
  EXPECT_EQ(bench.known(kAlice, moved), 0);
}

// C065
TEST(PrefixIndex, NeverSharesBetweenTenants) {
  Bench bench;
  const Tokens tokens = tokens_from(0, 40);
  PageTable table = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens, table);
  EXPECT_EQ(bench.known(kBob, tokens), 0);
  EXPECT_EQ(bench.known(kAlice, tokens), 32);
}

// C045
TEST(PrefixIndex, ASequenceThatComputedAKnownPageChangesOverToIt) {
  Bench bench;
  const Tokens tokens = tokens_from(0, 40);
  PageTable first = bench.sequence(kAlice, tokens);
  PageTable second = bench.sequence(kAlice, tokens);  // began before the first was known
  bench.index.insert(kAlice, tokens, first);
  const int32_t available = bench.pool->counts().available;
  bench.index.insert(kAlice, tokens, second);
  EXPECT_EQ(bench.index.size(), 2);
  EXPECT_EQ(bench.pool->counts().available, available + 2);
  EXPECT_EQ(second.pages()[1], first.pages()[1]);
  bench.expect_balanced({&first, &second});
}

TEST(PrefixIndex, GrowsWithASequence) {
  Bench bench;
  const Tokens tokens = tokens_from(0, 64);
  PageTable table = bench.sequence(kAlice, tokens_from(0, 20));
  bench.index.insert(kAlice, tokens_from(0, 20), table);
  ASSERT_TRUE(table.cover(64));
  bench.index.insert(kAlice, tokens, table);
  EXPECT_EQ(bench.index.size(), 4);
  table.clear();
  EXPECT_EQ(bench.known(kAlice, tokens_from(0, 65)), 64);
}

TEST(PrefixIndex, MakesRoomFromTheLongestUnusedLeafAndNeverFromAPageInUse) {
  Bench bench(6);
  PageTable old_one = bench.sequence(kAlice, tokens_from(0, 32));
  bench.index.insert(kAlice, tokens_from(0, 32), old_one);
  PageTable young_one = bench.sequence(kAlice, tokens_from(1000, 32));
  bench.index.insert(kAlice, tokens_from(1000, 32), young_one);
  old_one.clear();
  EXPECT_EQ(bench.pool->counts().cached, 2);
  EXPECT_TRUE(bench.index.make_room(3));
  EXPECT_EQ(bench.known(kAlice, tokens_from(0, 33)), 16);  // its leaf went first
  EXPECT_TRUE(bench.index.make_room(4));
  EXPECT_EQ(bench.known(kAlice, tokens_from(0, 33)), 0);
  EXPECT_FALSE(bench.index.make_room(5));  // the rest is in use
  EXPECT_EQ(bench.known(kAlice, tokens_from(1000, 33)), 32);
  EXPECT_EQ(bench.index.evicted_pages(), 2u);
  bench.expect_balanced({&young_one});
}

TEST(PrefixIndex, AHitMakesItsPagesYoung) {
  Bench bench(6);
  for (const int32_t first : {0, 1000, 2000}) {
    PageTable table = bench.sequence(kAlice, tokens_from(first, 16));
    bench.index.insert(kAlice, tokens_from(first, 16), table);
  }
  EXPECT_EQ(bench.known(kAlice, tokens_from(0, 17)), 16);
  EXPECT_TRUE(bench.index.make_room(5));
  EXPECT_EQ(bench.known(kAlice, tokens_from(0, 17)), 16);
  EXPECT_EQ(bench.known(kAlice, tokens_from(1000, 17)), 0);
}

TEST(PrefixIndex, ForgetsEverythingAndLeavesPagesInUseAlone) {
  Bench bench;
  const Tokens tokens = tokens_from(0, 40);
  PageTable table = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens, table);
  bench.index.clear();
  EXPECT_EQ(bench.index.size(), 0);
  EXPECT_EQ(bench.known(kAlice, tokens), 0);
  bench.expect_balanced({&table});
  // Its owner's next pages are still welcome, from the start on.
  ASSERT_TRUE(table.cover(48));
  bench.index.insert(kAlice, tokens_from(0, 48), table);
  EXPECT_EQ(bench.index.size(), 3);
  bench.expect_balanced({&table});
}

TEST(PrefixIndex, SwitchedOffItStaysEmptyAndFindsNothing) {
  Bench bench(16, {.enabled = false});
  const Tokens tokens = tokens_from(0, 40);
  PageTable table = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens, table);
  EXPECT_EQ(bench.index.size(), 0);
  EXPECT_EQ(bench.known(kAlice, tokens), 0);
}

// --- damage, in a pool whose tracker only looks on

struct DamagedBench : Bench {
  DamagedBench() : Bench(4, {.identity = "m", .secret = {9}}, integrity::Mode::kObserve) {
    injector.attach(*pool);
  }
  void damage(integrity::Fault fault, const PageTable& table) {
    std::vector<integrity::Reading> readings{{table.pages(), table.leases(), 0, 1}};
    injector.order(fault);
    injector.after_snapshot_build(readings);
    EXPECT_EQ(injector.waiting(), 0u);
  }
  // The tracker's count of books that contradict each other.
  uint64_t told() const {
    const auto kind = static_cast<size_t>(integrity::Kind::kBooks);
    return pool->integrity().report().mismatches[kind];
  }

  integrity::Injector injector;
};

TEST(PrefixIndex, APageThatItKnowsInAnotherPlaceIsToldAndNotTakenInTwice) {
  DamagedBench bench;
  const Tokens tokens = tokens_from(0, 48);
  PageTable table = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens_from(0, 16), table);
  bench.damage(integrity::Fault::kPermutedTable, table);
  bench.index.insert(kAlice, tokens, table);
  EXPECT_EQ(bench.index.size(), 1);
  EXPECT_EQ(bench.told(), 1u);
}

TEST(PrefixIndex, ANodeOfALifeThatIsOverIsToldAndForgotten) {
  DamagedBench bench;
  const Tokens known = tokens_from(0, 16);
  PageTable lost = bench.sequence(kAlice, known);
  bench.index.insert(kAlice, known, lost);
  // The sequence's reference and the index's: the page is free and has another life.
  for (int i = 0; i < 2; ++i) bench.damage(integrity::Fault::kMissedReference, lost);
  const Tokens other = tokens_from(500, 64);
  PageTable table = bench.sequence(kAlice, other);
  ASSERT_EQ(table.pages()[3], lost.pages()[0]);
  bench.index.insert(kAlice, other, table);
  EXPECT_EQ(bench.index.size(), 3);  // and without the page that was in doubt
  EXPECT_GT(bench.told(), 0u);
  bench.index.insert(kAlice, other, table);
  EXPECT_EQ(bench.index.size(), 4);
  PageTable next(*bench.pool, 64);
  EXPECT_EQ(bench.index.match(kAlice, tokens_from(0, 17), next), 0);
}

TEST(PrefixIndex, ANodeWhosePageHasAnotherTagIsNotHandedOut) {
  DamagedBench bench;
  const Tokens tokens = tokens_from(0, 16);
  PageTable table = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens, table);
  bench.damage(integrity::Fault::kTagFlip, table);
  EXPECT_EQ(bench.known(kAlice, tokens_from(0, 17)), 0);
  EXPECT_EQ(bench.index.size(), 0);
  EXPECT_EQ(bench.pool->counts().quarantined, 1);
  table.clear();
  EXPECT_EQ(bench.pool->counts().available, 3);
}

TEST(PrefixIndex, TakesNothingOfADistrustedTable) {
  Bench bench;
  const Tokens tokens = tokens_from(0, 40);
  PageTable table = bench.sequence(kAlice, tokens);
  table.distrust();
  PageTable moved = std::move(table);
  bench.index.insert(kAlice, tokens, moved);
  EXPECT_EQ(bench.index.size(), 0);
  moved.clear();
  EXPECT_TRUE(moved.trusted());
}

// What a step holds against the number of an entry is the page's own, whoever computed it.
TEST(PrefixIndex, ASharedPageHasOnePlaceForAllItsReaders) {
  Bench bench(16, {.identity = "m", .secret = {9}}, integrity::Mode::kAbort);
  const Tokens tokens = tokens_from(0, 70);
  PageTable first = bench.sequence(kAlice, tokens);
  PageTable meanwhile = bench.sequence(kAlice, tokens);
  bench.index.insert(kAlice, tokens, first);
  bench.index.insert(kAlice, tokens, meanwhile);  // changes over to the pages of the first
  PageTable hit = bench.sequence(kAlice, tokens);
  EXPECT_EQ(meanwhile.pages()[3], first.pages()[3]);
  EXPECT_EQ(hit.pages()[3], first.pages()[3]);
  // The last page is each one's own, and the next one grows.
  for (PageTable* table : {&first, &meanwhile, &hit}) ASSERT_TRUE(table->cover(96));
  for (const PageTable* table : {&first, &meanwhile, &hit}) {
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(bench.pool->integrity().place(table->pages()[i]), static_cast<Place>(i));
    }
    const integrity::Reading reading{table->pages(), table->leases(), 0, 1};
    uint8_t bad = 0;
    EXPECT_EQ(bench.pool->integrity().check(std::span(&reading, 1), integrity::Phase::kBefore,
                                            std::span(&bad, 1)),
              0u);
  }
}

// Random sequences of two tenants over a small alphabet of pages, against a plain model: for every
// life of a page, whose tokens it was computed for.
class RandomUse {
 public:
  RandomUse(uint64_t seed, int key_bits)
      : rng_(seed),
        bench_(static_cast<int32_t>(6 + rng_.below(20)),
               {.identity = "m", .secret = {9}, .key_bits = key_bits}) {}

  void run(int operations) {
    for (int op = 0; op < operations; ++op) {
      act();
      // With nobody else about, every cached page can be given up.
      if (running_.empty() && rng_.below(4) == 0) {
        ASSERT_TRUE(bench_.index.make_room(bench_.pool->counts().total));
        ASSERT_EQ(bench_.index.size(), 0);
      }
      std::vector<const PageTable*> tables;
      for (const Running& one : running_) tables.push_back(&one.table);
      bench_.expect_balanced(tables);
      if (::testing::Test::HasFatalFailure()) return;
    }
    running_.clear();
    bench_.index.clear();
    EXPECT_TRUE(validate_idle(bench_.pool->snapshot()).empty());
  }

 private:
  struct Running {
    Tenant tenant;
    Tokens tokens;
    PageTable table;
  };

  void act() {
    const uint64_t kind = rng_.below(8);
    if (kind < 3) {
      start();
    } else if (kind < 5 && !running_.empty()) {
      Running& one = running_[rng_.below(running_.size())];
      bench_.index.insert(one.tenant, one.tokens, one.table);
    } else if (kind < 7 && !running_.empty()) {
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(rng_.below(running_.size())));
    } else if (rng_.below(20) == 0) {
      bench_.index.clear();
    } else {
      bench_.index.make_room(static_cast<int32_t>(1 + rng_.below(5)));
    }
  }

  Tokens draw_tokens() {
    Tokens tokens;
    const uint64_t pages = 1 + rng_.below(4);
    for (uint64_t page = 0; page < pages; ++page) {
      const auto first = static_cast<int32_t>(rng_.below(2) * 100);
      for (int32_t i = 0; i < kPageTokens; ++i) tokens.push_back(first + i);
    }
    tokens.resize(tokens.size() - rng_.below(3));
    return tokens;
  }

  static Tokens start_of(const Tokens& tokens, size_t pages) {
    const size_t end = std::min(tokens.size(), pages * kPageTokens);
    return Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }

  void start() {
    Running one{rng_.below(2) == 0 ? kAlice : kBob, draw_tokens(), {}};
    const auto length = static_cast<int64_t>(one.tokens.size());
    one.table = PageTable(*bench_.pool, length);
    const int32_t found = bench_.index.match(one.tenant, one.tokens, one.table);
    ASSERT_LT(found, length);
    const auto shared = static_cast<size_t>(found / kPageTokens);
    for (size_t i = 0; i < shared; ++i) {
      const auto& [tenant, tokens] = written_.at(one.table.leases()[i].ref().tag);
      ASSERT_EQ(tenant, one.tenant);
      ASSERT_EQ(tokens, start_of(one.tokens, i + 1));
    }
    const int32_t missing = bench_.pool->pages_for(length) - static_cast<int32_t>(shared);
    if (!bench_.index.make_room(missing)) return;
    ASSERT_TRUE(one.table.cover(length));
    for (size_t i = shared; i < one.table.pages().size(); ++i) {
      written_[one.table.leases()[i].ref().tag] = {one.tenant, start_of(one.tokens, i + 1)};
    }
    running_.push_back(std::move(one));
  }

  base::Rng rng_;
  Bench bench_;
  std::map<Tag, std::pair<Tenant, Tokens>> written_;
  std::vector<Running> running_;
};

// C044
TEST(PrefixIndex, AgreesWithAPlainModelUnderRandomUse) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomUse(seed, 256).run(600);
  }
}

// C063
TEST(PrefixIndex, NoCollisionOfKeysHandsOutAForeignPage) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomUse(seed, static_cast<int>(seed % 4)).run(600);  // at most eight keys for all pages
  }
}

}  // namespace
}  // namespace bulkhead::kv
