#include "apps/drill/answer.h"

#include <gtest/gtest.h>

namespace bulkhead::apps {
namespace {

constexpr const char* kTwoTokens =
    "data: {\"choices\":[{\"text\":\"ab\",\"finish_reason\":null,\"logprobs\":{\"tokens\":[\"a\","
    "\"b\"],\"token_logprobs\":[-0.25,-1.5],\"top_logprobs\":[{\"a\":-0.25},{\"c\":-0.5}],"
    "\"text_offset\":[0,1]}}]}\n\n";
constexpr const char* kLastToken =
    "data: {\"choices\":[{\"text\":\"d\",\"finish_reason\":\"length\",\"logprobs\":{\"tokens\":"
    "[\"d\"],\"token_logprobs\":[-2.0],\"top_logprobs\":[{\"d\":-2.0}]}}]}\n\n";
constexpr const char* kDone = "data: [DONE]\n\n";
constexpr const char* kError =
    "data: {\"error\":{\"code\":\"kv_integrity\",\"message\":\"pages\",\"retriable\":true}}\n\n";

http::ClientResponse with_status(int status) {
  http::ClientResponse response;
  response.status = status;
  return response;
}

Answer read(std::initializer_list<const char*> pieces, int status = 200) {
  AnswerReader reader;
  for (const char* piece : pieces) reader.piece(piece);
  return reader.finish(with_status(status));
}

TEST(Answer, KeepsEachTokenWithItsLogProbabilities) {
  const Answer answer = read({kTwoTokens, kLastToken, kDone});
  EXPECT_EQ(answer.tokens, (std::vector<std::string>{"[\"a\",-2.5E-1,{\"a\":-2.5E-1}]",
                                                     "[\"b\",-1.5E0,{\"c\":-5E-1}]",
                                                     "[\"d\",-2E0,{\"d\":-2E0}]"}));
  EXPECT_EQ(answer.finish_reason, "length");
  EXPECT_TRUE(answer.done);
  EXPECT_TRUE(answer.error_code.empty());
  EXPECT_TRUE(answer.failure.empty());
}

TEST(Answer, HasBegunWithItsFirstTokenOrItsError) {
  AnswerReader reader;
  EXPECT_FALSE(reader.begun());
  reader.piece("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":null}]}\n\n");
  EXPECT_FALSE(reader.begun());
  reader.piece(kTwoTokens);
  EXPECT_TRUE(reader.begun());
  AnswerReader refused;
  refused.piece(kError);
  EXPECT_TRUE(refused.begun());
}

TEST(Answer, TellsAnErrorAndWhatFollowsIt) {
  const Answer ended = read({kTwoTokens, kError});
  EXPECT_EQ(ended.error_code, "kv_integrity");
  EXPECT_TRUE(ended.retriable);
  EXPECT_FALSE(ended.went_on);
  EXPECT_TRUE(read({kError, kTwoTokens}).went_on);
  EXPECT_TRUE(read({kError, kDone}).went_on);
  EXPECT_TRUE(read({kError, kError}).went_on);
}

TEST(Answer, ARefusalIsNoStream) {
  const Answer answer =
      read({"{\"error\":{\"code\":\"kv_integrity\",\"message\":\"pages\",", "\"retriable\":true}}"},
           503);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.error_code, "kv_integrity");
  EXPECT_TRUE(answer.retriable);
  EXPECT_EQ(read({"gateway"}, 502).error_code, "without a code");
}

TEST(Answer, WithoutAnAnswerThereIsTheReason) {
  AnswerReader reader;
  reader.piece(kTwoTokens);
  EXPECT_EQ(reader.finish(base::Error{base::ErrorCode::kIo, "cut", {}}).failure, "cut");
  EXPECT_FALSE(read({"data: 3\n\n"}).failure.empty());
}

}  // namespace
}  // namespace bulkhead::apps
