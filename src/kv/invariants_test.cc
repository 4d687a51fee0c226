#include "kv/invariants.h"

#include <gtest/gtest.h>

namespace bulkhead::kv {
namespace {

// Four pages: 0 and 2 held, 1 and 3 free.
PoolSnapshot good() { return {{5, 4, 6, 3}, {1, 0, 2, 0}, {3, 1}, 1, 6}; }
std::vector<PageRef> holders_of_good() { return {{0, 5}, {2, 6}, {2, 6}}; }

TEST(PoolInvariants, ABalancedPoolHasNoViolation) {
  EXPECT_TRUE(validate(good()).empty());
  EXPECT_TRUE(validate(good(), holders_of_good()).empty());
  EXPECT_TRUE(validate_idle({{1, 2}, {0, 0}, {0, 1}, 0, 2}).empty());
}

TEST(PoolInvariants, EachFaultIsNamedWithItsPage) {
  const auto says = [](const std::vector<Violation>& found, PageId page, const char* what) {
    for (const Violation& violation : found) {
      if (violation.page == page && violation.what.find(what) != std::string::npos) return true;
    }
    return false;
  };
  PoolSnapshot pool = good();
  pool.free_list = {3, 1, 3};
  EXPECT_TRUE(says(validate(pool), 3, "more than once"));
  pool = good();
  pool.free_list = {3, 1, 0};
  EXPECT_TRUE(says(validate(pool), 0, "while leased"));
  pool = good();
  pool.free_list = {3};
  EXPECT_TRUE(says(validate(pool), 1, "lost"));
  pool = good();
  pool.free_list = {3, 1, 9};
  EXPECT_TRUE(says(validate(pool), 9, "not in the pool"));
  pool = good();
  pool.reserved = 3;
  EXPECT_TRUE(says(validate(pool), -1, "promised"));
  pool = good();
  pool.tags[1] = 5;
  EXPECT_TRUE(says(validate(pool), 1, "used twice"));
  pool = good();
  pool.tags[1] = 7;
  EXPECT_TRUE(says(validate(pool), 1, "never given out"));
  pool = good();
  pool.last_tag = (Tag{2} << 48) + 6;
  EXPECT_TRUE(says(validate(pool), 0, "another boot"));
}

TEST(PoolInvariants, HoldersMustExplainEveryLease) {
  auto holders = holders_of_good();
  holders.pop_back();
  EXPECT_EQ(describe(validate(good(), holders)), "page 2: 2 leases but 1 holders");
  holders = holders_of_good();
  holders[0].tag = 4;
  EXPECT_EQ(describe(validate(good(), holders)), "page 0: held with the tag of another life");
  holders = holders_of_good();
  holders.push_back({-1, 1});
  EXPECT_EQ(describe(validate(good(), holders)), "pool: held but not in the pool");
}

TEST(PoolInvariants, AnIdlePoolHoldsAndPromisesNothing) {
  EXPECT_FALSE(validate_idle(good()).empty());
  EXPECT_FALSE(validate_idle({{1, 2}, {0, 0}, {0, 1}, 1, 2}).empty());
}

}  // namespace
}  // namespace bulkhead::kv
