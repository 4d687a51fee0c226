#include "api/auth.h"

#include <gtest/gtest.h>

namespace bulkhead::api {
namespace {

constexpr KeyRing::Secret kSecret = {1, 2, 3};

http::Request with_headers(std::vector<http::Header> headers) {
  http::Request request;
  request.method = "GET";
  request.path = "/v1/models";
  request.headers = std::move(headers);
  return request;
}

http::Request with_key(const std::string& key) {
  return with_headers({{"Authorization", "Bearer " + key}});
}

KeyRing ring_of(std::vector<std::string> keys, std::string admin = {}, bool loopback = false) {
  return KeyRing(KeyOptions{std::move(keys), std::move(admin), loopback}, kSecret);
}

// What the ring makes of a request that must pass.
Caller caller_of(const KeyRing& ring, const http::Request& request) {
  Caller caller;
  const Failure failure = ring.check(request, caller);
  EXPECT_FALSE(failure.has_value());
  return caller;
}

TEST(KeyRing, AcceptsKnownBearerKeysAndNothingElse) {
  const KeyRing ring = ring_of({"first-key", "second-key"});
  struct Row {
    std::vector<http::Header> headers;
    bool passes;
  };
  const std::vector<Row> table = {
      {{}, false},
      {{{"Authorization", "Bearer first-key"}}, true},
      {{{"authorization", "bearer second-key"}}, true},
      {{{"AUTHORIZATION", "BEARER second-key"}}, true},
      {{{"Authorization", "Bearer wrong"}}, false},
      {{{"Authorization", "Bearer first-key "}}, false},
      {{{"Authorization", "Bearer  first-key"}}, false},
      {{{"Authorization", "Bearer First-Key"}}, false},
      {{{"Authorization", "Bearer first-ke"}}, false},
      {{{"Authorization", "Bearer "}}, false},
      {{{"Authorization", "Bearer"}}, false},
      {{{"Authorization", "first-key"}}, false},
      {{{"Authorization", "Basic first-key"}}, false},
      {{{"Authorization", ""}}, false},
      {{{"X-Api-Key", "first-key"}}, false},
      {{{"Authorization", "Bearer first-key"}, {"Authorization", "Bearer first-key"}}, false},
      {{{"Authorization", "Bearer first-key"}, {"authorization", "Bearer wrong"}}, false},
  };
  for (const Row& row : table) {
    Caller caller;
    const Failure failure = ring.check(with_headers(row.headers), caller);
    const std::string shown = row.headers.empty() ? "no header" : row.headers.front().value;
    EXPECT_EQ(!failure.has_value(), row.passes) << shown;
    EXPECT_FALSE(caller.is_admin);
    if (failure) {
      EXPECT_EQ(failure->status, 401);
      EXPECT_EQ(failure->code, "invalid_api_key");
      EXPECT_EQ(caller.tenant, TenantDigest{});
    }
  }
}

TEST(KeyRing, WithoutKeysEverybodyPassesAsTheSameTenant) {
  const KeyRing ring = ring_of({});
  EXPECT_EQ(caller_of(ring, with_headers({})).tenant, TenantDigest{});
  EXPECT_EQ(caller_of(ring, with_key("none")).tenant, TenantDigest{});
}

TEST(KeyRing, EachKeyIsATenantThatAReloadKeepsAndAnotherProcessDoesNotShare) {
  const KeyRing ring = ring_of({"first-key", "second-key"});
  const TenantDigest first = caller_of(ring, with_key("first-key")).tenant;
  const TenantDigest second = caller_of(ring, with_key("second-key")).tenant;
  EXPECT_NE(first, second);
  EXPECT_NE(first, TenantDigest{});
  EXPECT_EQ(caller_of(ring_of({"new-key", "first-key"}), with_key("first-key")).tenant, first);
  const KeyRing other(KeyOptions{{"first-key"}, {}, false}, KeyRing::random_secret());
  EXPECT_NE(caller_of(other, with_key("first-key")).tenant, first);
  EXPECT_NE(KeyRing::random_secret(), KeyRing::random_secret());
}

TEST(KeyRing, OnlyTheAdminKeyAdministersAndItOpensTheRestToo) {
  const KeyRing ring = ring_of({"user"}, "boss", true);
  const Caller user = caller_of(ring, with_key("user"));
  const Caller boss = caller_of(ring, with_key("boss"));
  EXPECT_FALSE(user.is_admin);
  EXPECT_TRUE(boss.is_admin);
  EXPECT_FALSE(ring.check_admin(boss).has_value());
  const Failure refused = ring.check_admin(user);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 403);
  EXPECT_EQ(refused->code, "insufficient_scope");
  EXPECT_NE(refused->message.find("--admin-key"), std::string::npos);
}

TEST(KeyRing, WithAnAdminKeyAloneOthersPassWithoutBeingAdmins) {
  const KeyRing ring = ring_of({}, "boss", true);
  EXPECT_FALSE(caller_of(ring, with_headers({})).is_admin);
  EXPECT_FALSE(caller_of(ring, with_key("none")).is_admin);
  EXPECT_TRUE(caller_of(ring, with_key("boss")).is_admin);
}

TEST(KeyRing, WithoutAnyKeyEverybodyOnLoopbackIsAnAdmin) {
  EXPECT_TRUE(caller_of(ring_of({}, "", true), with_headers({})).is_admin);
  EXPECT_FALSE(caller_of(ring_of({}, "", false), with_headers({})).is_admin);
  EXPECT_FALSE(caller_of(ring_of({"user"}, "", true), with_key("user")).is_admin);
}

}  // namespace
}  // namespace bulkhead::api
