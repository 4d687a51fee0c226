// Whose cached prompts a request may see: failures that others had, by their number in
// docs/cases.md.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;

using Scope = std::array<uint8_t, 32>;

std::string json_string(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    if (c == '\0') {
      out += "\\u0000";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The tenant under which a prompt of `key` with `salt` (empty: none) is cached.
Scope scope_of(ApiWorld& world, std::string_view key, std::string_view salt) {
  std::string body = R"({"prompt":"hi")";
  if (!salt.empty()) body += ",\"cache_salt\":" + json_string(salt);
  const size_t before = world.generator.submitted.size();
  world.post("/v1/completions", body + "}", {{"Authorization", "Bearer " + std::string(key)}});
  EXPECT_EQ(world.generator.submitted.size(), before + 1) << key << " " << salt;
  return world.generator.last().request.cache.tenant;
}

// C065, C069
TEST(CacheScopeCases, NoTwoPairsOfKeyAndSaltAreOneWhereverTheBorderLies) {
  const std::string_view keys[] = {"org_1", "org_12345", "org_12", "2345", "x", "xx", "org_1:2345"};
  const std::string_view salts[] = {"",
                                    "2345",
                                    "345",
                                    "x",
                                    "xx",
                                    "org_1",
                                    ":2345",
                                    std::string_view("\0", 1),
                                    std::string_view("\0\0", 2)};
  ApiOptions options;
  options.keys.assign(std::begin(keys), std::end(keys));
  ApiWorld world(options);
  std::map<Scope, std::pair<std::string, std::string>> seen;
  for (const std::string_view key : keys) {
    for (const std::string_view salt : salts) {
      const auto [at, is_new] = seen.emplace(scope_of(world, key, salt), std::pair(key, salt));
      EXPECT_TRUE(is_new) << key << "/" << salt << " is " << at->second.first << "/"
                          << at->second.second;
      EXPECT_EQ(scope_of(world, key, salt), at->first) << "the same pair is the same tenant";
    }
  }
  // A salt cannot spell another tenant's digest either.
  for (const auto& [scope, pair] : std::map(seen)) {
    std::string forged;
    for (const uint8_t byte : scope) forged += static_cast<char>('a' + byte % 26);
    EXPECT_EQ(seen.count(scope_of(world, "x", forged)), 0u);
  }
}

// Compiled forms are kept too, and how long one takes would tell who else asked for it.
TEST(CacheScopeCases, WhatIsCompiledBelongsToTheKeyAndTheSalt) {
  ApiOptions options;
  options.keys = {"one", "two"};
  ApiWorld world(options);
  const auto scope_with = [&world](std::string_view key, const std::string& fields) {
    world.post("/v1/completions",
               R"({"prompt":"hi","response_format":{"type":"json_object"})" + fields + "}",
               {{"Authorization", "Bearer " + std::string(key)}});
    return world.constraints.asked.back().spec.scope;
  };
  const Scope one = scope_with("one", "");
  EXPECT_EQ(scope_with("one", ""), one);
  EXPECT_EQ(scope_with("one", R"(,"cache_prompt":false)"), one) << "a form is no prompt";
  const Scope salted = scope_with("one", R"(,"cache_salt":"s")");
  EXPECT_EQ(std::set<Scope>(
                {one, salted, scope_with("two", ""), scope_with("two", R"(,"cache_salt":"s")")})
                .size(),
            4u);
  EXPECT_EQ(scope_with("one", R"(,"cache_salt":"s")"), salted);
}

std::string hex_of(const Scope& scope) {
  std::string out;
  for (const uint8_t byte : scope) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

// C069: SHA-256 of 32 zero bytes (no keys: one tenant), and of those and the salt.
TEST(CacheScopeCases, TheDerivationIsPinned) {
  ApiWorld world;
  EXPECT_EQ(hex_of(scope_of(world, "", "")),
            "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
  EXPECT_EQ(hex_of(scope_of(world, "", "2345")),
            "4d4980de8c5fe281854a6215f1791eec91d3b5e2b26986ce888bb3ea9dbe2100");
}

}  // namespace
}  // namespace bulkhead::api
