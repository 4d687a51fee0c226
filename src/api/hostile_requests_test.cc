// Requests made to hurt: failures that others had, by their number in docs/cases.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::MemoryWriter;

std::string error_text(const MemoryWriter& writer, const char* field) {
  const boost::json::value body = writer.body();
  const boost::json::value& value = body.at("error").at(field);
  return value.is_string() ? std::string(value.get_string().c_str()) : std::string();
}

// C170
TEST(HostileRequests, ABiasOnAHundredThousandTokensIsRefusedBeforeAnyIsLookedAt) {
  for (const int entries : {1025, 100'000}) {
    ApiWorld world;
    std::string bias = R"("0":1)";
    for (int i = 1; i < entries; ++i) bias += fmt::format(",\"{}\":1", i);
    const auto many = world.complete(",\"logit_bias\":{" + bias + "}");
    ASSERT_EQ(many->sent->status, 400);
    EXPECT_EQ(error_text(*many, "param"), "logit_bias");
    EXPECT_NE(error_text(*many, "message").find("1024"), std::string::npos);
    EXPECT_TRUE(world.generator.submitted.empty());
    world.complete("");
    EXPECT_EQ(world.generator.submitted.size(), 1u);
  }
}

// C179
TEST(HostileRequests, WhatTheTemplateRefusesIsA400BeforeAStreamBegins) {
  for (const std::string_view stream : {"", R"(,"stream":true)"}) {
    ApiWorld world;
    const auto refused =
        world.post("/v1/chat/completions",
                   R"({"messages":[{"role":"tool","content":"x","tool_call_id":"1"}])" +
                       std::string(stream) + "}");
    EXPECT_FALSE(refused->stream_head.has_value());
    ASSERT_TRUE(refused->sent.has_value());
    EXPECT_EQ(refused->sent->status, 400);
    EXPECT_NE(error_text(*refused, "message").find("no tools here"), std::string::npos);
  }
}

}  // namespace
}  // namespace bulkhead::api
