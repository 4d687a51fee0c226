#include "router/prefix_affinity.h"

#include <gtest/gtest.h>

#include <numeric>

namespace bulkhead::router {
namespace {

PrefixAffinityOptions options(size_t entries_max = 100) {
  return {.page_tokens = 4, .entries_max = entries_max, .secret = {1, 2, 3}};
}

std::vector<wire::TokenId> tokens(size_t n, wire::TokenId first = 0) {
  std::vector<wire::TokenId> out(n);
  std::iota(out.begin(), out.end(), first);
  return out;
}

wire::CacheScope tenant(uint8_t name) {
  wire::CacheScope scope;
  scope.tenant[0] = name;
  return scope;
}

TEST(PrefixAffinity, KnowsWhoComputedTheStartOfAPrompt) {
  PrefixAffinity affinity(options());
  const auto prompt = tokens(11);
  const auto keys = affinity.keys(tenant(1), prompt);
  EXPECT_EQ(keys.size(), 2u);
  EXPECT_EQ(affinity.known_tokens(keys, 0), 0);
  affinity.computed(tenant(1), keys, 0);
  EXPECT_EQ(affinity.known_tokens(keys, 0), 8);
  EXPECT_EQ(affinity.known_tokens(keys, 1), 0);
}

TEST(PrefixAffinity, ThePageOfTheLastTokenIsAlwaysComputed) {
  PrefixAffinity affinity(options());
  EXPECT_EQ(affinity.keys(tenant(1), tokens(8)).size(), 1u);
  EXPECT_EQ(affinity.keys(tenant(1), tokens(9)).size(), 2u);
  EXPECT_TRUE(affinity.keys(tenant(1), {}).empty());
}

TEST(PrefixAffinity, APromptThatGoesOnOtherwiseSharesOnlyItsStart) {
  PrefixAffinity affinity(options());
  auto prompt = tokens(20);
  affinity.computed(tenant(1), affinity.keys(tenant(1), prompt), 0);
  prompt[9] = 77;
  EXPECT_EQ(affinity.known_tokens(affinity.keys(tenant(1), prompt), 0), 8);
}

// C068
TEST(PrefixAffinity, TheSamePromptOfAnotherTenantOrSaltIsNoAffinity) {
  PrefixAffinity affinity(options());
  const auto prompt = tokens(20);
  affinity.computed(tenant(1), affinity.keys(tenant(1), prompt), 0);
  EXPECT_EQ(affinity.known_tokens(affinity.keys(tenant(2), prompt), 0), 0);
  EXPECT_EQ(affinity.known_tokens(affinity.keys(tenant(1), prompt), 0), 16);
}

TEST(PrefixAffinity, WhoMayLeaveNothingBehindLeavesNothing) {
  PrefixAffinity affinity(options());
  wire::CacheScope scope = tenant(1);
  scope.insert = false;
  affinity.computed(scope, affinity.keys(scope, tokens(20)), 0);
  EXPECT_EQ(affinity.size(), 0u);
}

TEST(PrefixAffinity, TheLastToComputeAPageIsTheOneThatIsAsked) {
  PrefixAffinity affinity(options());
  const auto longer = affinity.keys(tenant(1), tokens(20));
  const auto shorter = affinity.keys(tenant(1), tokens(9));
  affinity.computed(tenant(1), longer, 0);
  affinity.computed(tenant(1), shorter, 1);
  EXPECT_EQ(affinity.known_tokens(longer, 0), 16);
  EXPECT_EQ(affinity.known_tokens(longer, 1), 8);
}

TEST(PrefixAffinity, RemembersNoMoreThanItsBoundAndForgetsTheLongestUnusedFirst) {
  PrefixAffinity affinity(options(3));
  const auto first = affinity.keys(tenant(1), tokens(5));
  affinity.computed(tenant(1), first, 0);
  for (uint8_t name = 2; name < 40; ++name) {
    const auto keys = affinity.keys(tenant(name), tokens(5));
    affinity.computed(tenant(name), keys, 1);
    affinity.computed(tenant(1), first, 0);
    EXPECT_LE(affinity.size(), 3u);
  }
  EXPECT_EQ(affinity.known_tokens(first, 0), 4);
  EXPECT_EQ(affinity.known_tokens(affinity.keys(tenant(2), tokens(5)), 1), 0);
}

TEST(PrefixAffinity, AWorkerThatStartedAnewKnowsNothing) {
  PrefixAffinity affinity(options());
  const auto keys = affinity.keys(tenant(1), tokens(20));
  const auto others = affinity.keys(tenant(2), tokens(20));
  affinity.computed(tenant(1), keys, 0);
  affinity.computed(tenant(2), others, 1);
  affinity.forget(0);
  EXPECT_EQ(affinity.known_tokens(keys, 0), 0);
  EXPECT_EQ(affinity.known_tokens(others, 1), 16);
  affinity.clear();
  EXPECT_EQ(affinity.size(), 0u);
}

}  // namespace
}  // namespace bulkhead::router
