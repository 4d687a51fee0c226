#include "api/live_requests.h"

#include <gtest/gtest.h>

#include <optional>

namespace bulkhead::api {
namespace {

Caller tenant(uint8_t which) {
  Caller caller;
  caller.tenant.fill(which);
  return caller;
}

Caller admin() {
  Caller caller;
  caller.is_admin = true;
  return caller;
}

TEST(LiveRequests, ARequestIsFoundUnderEachOfItsNamesWhileItsHandleLives) {
  LiveRequests live;
  int cancels = 0;
  {
    const auto handle = live.add({"req-1", "cmpl-1"}, tenant(1).tenant, [&] { ++cancels; });
    EXPECT_EQ(live.size(), 1u);
    EXPECT_EQ(live.cancel("req-1", tenant(1)), 1u);
    EXPECT_EQ(live.cancel("cmpl-1", tenant(1)), 1u);
    EXPECT_EQ(live.cancel("req-2", tenant(1)), 0u);
    EXPECT_EQ(cancels, 2);
  }
  EXPECT_EQ(live.size(), 0u);
  EXPECT_EQ(live.cancel("req-1", tenant(1)), 0u);
  EXPECT_EQ(cancels, 2);
}

TEST(LiveRequests, OnlyTheOwnKeyOrAnAdminReachesARequest) {
  LiveRequests live;
  int mine = 0;
  int yours = 0;
  const auto first = live.add({"same"}, tenant(1).tenant, [&] { ++mine; });
  const auto second = live.add({"same"}, tenant(2).tenant, [&] { ++yours; });
  EXPECT_EQ(live.cancel("same", tenant(1)), 1u);
  EXPECT_EQ(live.cancel("same", tenant(3)), 0u);
  EXPECT_EQ(mine, 1);
  EXPECT_EQ(yours, 0);
  EXPECT_EQ(live.cancel("same", admin()), 2u);
  EXPECT_EQ(mine, 2);
  EXPECT_EQ(yours, 1);
}

TEST(LiveRequests, OneNameMayStandForManyRequestsAndACallMayEndThemAll) {
  LiveRequests live;
  std::vector<LiveRequests::Handle> handles;
  int cancels = 0;
  for (int i = 0; i < 100; ++i) {
    handles.push_back(live.add({"same", "id-" + std::to_string(i)}, {}, [&] {
      ++cancels;
      handles.clear();  // the first call ends every request
    }));
  }
  EXPECT_EQ(live.size(), 100u);
  EXPECT_EQ(live.cancel("same", Caller{}), 100u);
  EXPECT_EQ(cancels, 100);
  EXPECT_EQ(live.size(), 0u);
  EXPECT_EQ(live.cancel_all(), 0u);
}

TEST(LiveRequests, AHandleThatMovesTakesItsRequestAlong) {
  LiveRequests live;
  std::optional<LiveRequests::Handle> kept;
  {
    LiveRequests::Handle handle = live.add({"a"}, {}, [] {});
    kept.emplace(std::move(handle));
  }
  EXPECT_EQ(live.cancel_all(), 1u);
  LiveRequests::Handle other = live.add({"b"}, {}, [] {});
  other = std::move(*kept);
  kept.reset();
  EXPECT_EQ(live.cancel("b", Caller{}), 0u);
  EXPECT_EQ(live.cancel("a", Caller{}), 1u);
}

}  // namespace
}  // namespace bulkhead::api
