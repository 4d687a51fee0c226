// Answers of a required form: what is compiled, when they begin, what becomes of refusals.
#include <gtest/gtest.h>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::ByteTokenizer;
using wire::FinishReason;

constexpr const char* kSchema =
    R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n",)"
    R"("schema":{"type":"null"}}})";

std::string code_of(const testing::MemoryWriter& writer) {
  return writer.body().at("error").at("code").as_string().c_str();
}

TEST(ConstrainedAnswers, AnAnswerBeginsOnceItsFormIsCompiled) {
  ApiWorld world;
  const auto writer = world.chat(kSchema + std::string(R"(,"n":2)"));
  ASSERT_EQ(world.constraints.asked.size(), 1u);
  EXPECT_EQ(world.constraints.asked[0].spec.json_schema, R"({"type":"null"})");
  EXPECT_TRUE(world.generator.submitted.empty());
  world.constraints.succeed();
  EXPECT_TRUE(world.generator.submitted.empty()) << "the I/O thread submits";
  world.pump();
  ASSERT_EQ(world.generator.submitted.size(), 2u);
  for (auto& one : world.generator.submitted) {
    EXPECT_EQ(one.request.constraint, world.constraints.compiled);
    world.generator.text(one, "null");
    world.generator.finish(one, FinishReason::kStop);
  }
  world.pump();
  EXPECT_EQ(writer->sent->status, 200);
}

TEST(ConstrainedAnswers, JsonObjectsAndTextsAskForThatMuch) {
  ApiWorld world;
  world.chat(R"(,"response_format":{"type":"text"})");
  EXPECT_TRUE(world.constraints.asked.empty());
  EXPECT_EQ(world.generator.submitted.size(), 1u);
  world.complete(R"(,"response_format":{"type":"json_object"})");
  ASSERT_EQ(world.constraints.asked.size(), 1u);
  EXPECT_TRUE(world.constraints.asked[0].spec.json_object);
  world.complete(R"(,"response_format":{"type":"json_object","schema":{"type":"object"}})");
  EXPECT_EQ(world.constraints.asked[1].spec.json_schema, R"({"type":"object"})");
}

TEST(ConstrainedAnswers, EachRefusalOfTheCompilerHasItsStatus) {
  const struct {
    base::ErrorCode code;
    int status;
    const char* name;
  } cases[] = {{base::ErrorCode::kInvalidArgument, 400, "invalid_value"},
               {base::ErrorCode::kUnsupported, 400, "unsupported_parameter"},
               {base::ErrorCode::kResourceExhausted, 429, "queue_full"},
               {base::ErrorCode::kUnavailable, 503, "draining"},
               {base::ErrorCode::kInternal, 500, "internal_error"}};
  for (const auto& one : cases) {
    ApiWorld world;
    const auto writer = world.chat(kSchema + std::string(R"(,"stream":true)"));
    world.constraints.refuse({one.code, "at /x: it is wrong", "schema"});
    world.pump();
    ASSERT_TRUE(writer->sent) << one.name;
    EXPECT_EQ(writer->sent->status, one.status);
    EXPECT_EQ(code_of(*writer), one.name);
    EXPECT_TRUE(world.generator.submitted.empty());
    if (one.status == 400) {
      EXPECT_EQ(writer->body().at("error").at("param"), "response_format.json_schema.schema");
    }
  }
}

TEST(ConstrainedAnswers, AClientThatLeftMeanwhileGetsNothingSubmitted) {
  ApiWorld world;
  const auto writer = world.chat(kSchema);
  writer->abort();
  world.constraints.succeed();
  world.pump();
  EXPECT_TRUE(world.generator.submitted.empty());
  EXPECT_EQ(writer->answers, 0);
}

TEST(ConstrainedAnswers, TheEndTokenStaysWhateverIgnoreEosSays) {
  ApiWorld world;
  world.chat(kSchema + std::string(R"(,"ignore_eos":true)"));
  world.constraints.succeed();
  world.pump();
  EXPECT_EQ(world.generator.last().request.stop_ids,
            std::vector<wire::TokenId>{ByteTokenizer::kEnd});
}

}  // namespace
}  // namespace bulkhead::api
