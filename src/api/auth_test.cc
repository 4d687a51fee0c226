#include "api/auth.h"

#include <gtest/gtest.h>

namespace bulkhead::api {
namespace {

http::Request with_headers(std::vector<http::Header> headers) {
  http::Request request;
  request.method = "GET";
  request.path = "/v1/models";
  request.headers = std::move(headers);
  return request;
}

TEST(KeyRing, AcceptsKnownBearerKeysAndNothingElse) {
  const KeyRing ring({"first-key", "second-key"});
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
    const Failure failure = ring.check(with_headers(row.headers));
    const std::string shown = row.headers.empty() ? "no header" : row.headers.front().value;
    EXPECT_EQ(!failure.has_value(), row.passes) << shown;
    if (failure) {
      EXPECT_EQ(failure->status, 401);
      EXPECT_EQ(failure->code, "invalid_api_key");
    }
  }
}

TEST(KeyRing, WithoutKeysEverybodyPasses) {
  EXPECT_FALSE(KeyRing({}).check(with_headers({})).has_value());
}

}  // namespace
}  // namespace bulkhead::api
