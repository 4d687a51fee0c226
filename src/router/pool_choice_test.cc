#include "router/pool_choice.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace bulkhead::router {
namespace {

std::vector<PoolLoad> idle_pools(size_t count) {
  std::vector<PoolLoad> pools;
  pools.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    pools.push_back({.key = 100 + i, .tokens_in_flight = 0, .tokens_free = 10'000});
  }
  return pools;
}

TEST(PoolChoice, TakesTheFewestTokensInFlightAmongThoseWithRoom) {
  auto pools = idle_pools(3);
  pools[0].tokens_in_flight = 500;
  pools[1].tokens_in_flight = 200;
  pools[2].tokens_in_flight = 100;
  EXPECT_EQ(choose_pool(pools, {.tokens = 50}), 2u);
  pools[2].tokens_free = 49;
  EXPECT_EQ(choose_pool(pools, {.tokens = 50}), 1u);
  pools[1].accepting = false;
  EXPECT_EQ(choose_pool(pools, {.tokens = 50}), 0u);
  pools[0].tokens_free = 0;
  EXPECT_EQ(choose_pool(pools, {.tokens = 50}), std::nullopt);
  EXPECT_EQ(choose_pool({}, {.tokens = 1, .session = 5}), std::nullopt);
}

TEST(PoolChoice, ASessionStaysWhereItIsAndSessionsSpread) {
  const auto pools = idle_pools(4);
  std::map<size_t, int> sessions;
  for (uint64_t session = 1; session <= 400; ++session) {
    const auto home = choose_pool(pools, {.tokens = 10, .session = session});
    ASSERT_TRUE(home.has_value());
    EXPECT_EQ(choose_pool(pools, {.tokens = 99, .session = session}), home);
    ++sessions[*home];
  }
  ASSERT_EQ(sessions.size(), 4u);
  for (const auto& [pool, count] : sessions) EXPECT_GT(count, 60) << pool;
}

TEST(PoolChoice, ASessionLeavesAHomeThatIsFullMuchFullerOrGone) {
  auto pools = idle_pools(2);
  const size_t home = *choose_pool(pools, {.tokens = 10, .session = 7});
  const size_t other = 1 - home;
  pools[other].tokens_in_flight = 100;
  pools[home].tokens_in_flight = 210;
  EXPECT_EQ(choose_pool(pools, {.tokens = 10, .session = 7}), home);
  pools[home].tokens_in_flight = 211;
  EXPECT_EQ(choose_pool(pools, {.tokens = 10, .session = 7}), other);
  pools[home].tokens_in_flight = 0;
  pools[home].tokens_free = 9;
  EXPECT_EQ(choose_pool(pools, {.tokens = 10, .session = 7}), other);
  pools[home].accepting = false;
  EXPECT_EQ(choose_pool(pools, {.tokens = 1, .session = 7}), other);
}

TEST(PoolChoice, OnlyTheSessionsOfAPoolThatGoesMove) {
  const auto pools = idle_pools(4);
  std::vector<PoolLoad> fewer(pools.begin(), pools.begin() + 3);
  for (uint64_t session = 1; session <= 200; ++session) {
    const size_t before = *choose_pool(pools, {.tokens = 10, .session = session});
    const size_t after = *choose_pool(fewer, {.tokens = 10, .session = session});
    EXPECT_TRUE(before == 3 || after == before) << session;
  }
}

}  // namespace
}  // namespace bulkhead::router
