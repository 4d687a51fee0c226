// /tokenize, /detokenize, /apply-template, /tokenizer_info: the forms that clients send and read.
#include "api/text_routes.h"

#include <gtest/gtest.h>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::ByteTokenizer;
using testing::MemoryWriter;

std::vector<int64_t> ids(const boost::json::value& array) {
  std::vector<int64_t> out;
  for (const auto& one : array.as_array()) out.push_back(one.as_int64());
  return out;
}

std::string text(const boost::json::value& value) {
  return std::string(std::string_view(value.as_string().data(), value.as_string().size()));
}

void expect_refused(const MemoryWriter& writer, int status, std::string_view code,
                    std::string_view param) {
  ASSERT_TRUE(writer.sent.has_value());
  EXPECT_EQ(writer.sent->status, status) << writer.sent->body;
  const boost::json::object body = writer.body();
  ASSERT_TRUE(body.contains("error")) << writer.sent->body.substr(0, 200);
  EXPECT_EQ(text(body.at("error").at("code")), code);
  EXPECT_EQ(text(body.at("error").at("param")), param);
}

TEST(Tokenize, APromptGetsTheIdsThatACompletionWouldGetUnlessToldOtherwise) {
  ApiWorld world;
  for (const char* path : {"/tokenize", "/v1/tokenize"}) {
    const auto body = world.post(path, R"({"prompt":"ab"})")->body();
    EXPECT_EQ(ids(body.at("tokens")), (std::vector<int64_t>{ByteTokenizer::kBos, 'a', 'b'}));
    EXPECT_EQ(body.at("count").as_int64(), 3);
    EXPECT_EQ(body.at("max_model_len").as_int64(), 512);
    EXPECT_FALSE(body.contains("token_strs"));
  }
  world.post("/v1/completions", R"({"prompt":"ab"})");
  EXPECT_EQ(world.generator.last().request.prompt,
            (std::vector<wire::TokenId>{ByteTokenizer::kBos, 'a', 'b'}));
  for (const char* flag : {"add_special_tokens", "add_special"}) {
    const std::string request = std::string(R"({"prompt":"ab",")") + flag + R"(":false})";
    EXPECT_EQ(ids(world.post("/tokenize", request)->body().at("tokens")),
              (std::vector<int64_t>{'a', 'b'}));
  }
}

TEST(Tokenize, AListOfPromptsGivesAListOfAnswers) {
  ApiWorld world;
  const auto body = world
                        .post("/tokenize", R"({"prompt":["a","bc",""],"add_special":false,
                                                "return_token_strs":true})")
                        ->body();
  const auto& lists = body.at("tokens").as_array();
  ASSERT_EQ(lists.size(), 3u);
  EXPECT_EQ(ids(lists[1]), (std::vector<int64_t>{'b', 'c'}));
  EXPECT_EQ(ids(body.at("count")), (std::vector<int64_t>{1, 2, 0}));
  EXPECT_EQ(text(body.at("token_strs").as_array().at(1).as_array().at(0)), "b");
}

TEST(Tokenize, ContentIsLlamaServersFormWithPieces) {
  ApiWorld world;
  const auto plain = world.post("/tokenize", R"({"content":"a"})")->body();
  EXPECT_EQ(ids(plain.at("tokens")), (std::vector<int64_t>{'a'}));
  const auto body = world.post("/tokenize", R"({"content":"é","with_pieces":true})")->body();
  const auto& tokens = body.at("tokens").as_array();
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].at("id").as_int64(), 0xC3);
  EXPECT_EQ(ids(tokens[0].at("piece")), (std::vector<int64_t>{0xC3}));
  const auto letter = world.post("/tokenize", R"({"content":"x","with_pieces":true})")->body();
  EXPECT_EQ(text(letter.at("tokens").as_array().at(0).at("piece")), "x");
}

TEST(Tokenize, MessagesGoThroughTheChatTemplateAsInAChat) {
  ApiWorld world;
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  const auto body = world.post("/tokenize", "{" + messages + "}")->body();
  world.post("/v1/chat/completions", "{" + messages + "}");
  const auto& prompt = world.generator.last().request.prompt;
  EXPECT_EQ(ids(body.at("tokens")), std::vector<int64_t>(prompt.begin(), prompt.end()));
  const auto closed =
      world.post("/tokenize", "{" + messages + R"(,"add_generation_prompt":false})")->body();
  EXPECT_LT(closed.at("count").as_int64(), body.at("count").as_int64());
  const auto tools = world
                         .post("/tokenize", "{" + messages +
                                                R"(,"tools":[{"type":"function",
                                                 "function":{"name":"f"}}]})")
                         ->body();
  EXPECT_GT(tools.at("count").as_int64(), body.at("count").as_int64());
}

TEST(Tokenize, ExactlyOneTextIsAskedForAndItsTypeIsChecked) {
  ApiWorld world;
  expect_refused(*world.post("/tokenize", "{}"), 400, "missing_required_parameter", "prompt");
  expect_refused(*world.post("/tokenize", R"({"prompt":"a","content":"b"})"), 400,
                 "missing_required_parameter", "prompt");
  expect_refused(*world.post("/tokenize", R"({"prompt":5})"), 400, "invalid_type", "prompt");
  expect_refused(*world.post("/tokenize", R"({"prompt":["a",5]})"), 400, "invalid_type",
                 "prompt[1]");
  expect_refused(*world.post("/tokenize", R"({"content":["a"]})"), 400, "invalid_type", "content");
  expect_refused(*world.post("/tokenize", R"({"prompt":"a","add_special":1})"), 400, "invalid_type",
                 "add_special");
  expect_refused(*world.post("/tokenize", R"({"prompt":"a","model":"other"})"), 404,
                 "model_not_found", "model");
  expect_refused(*world.post("/tokenize", R"({"messages":[]})"), 400, "invalid_value", "messages");
}

TEST(Tokenize, TheWorkOfOneRequestIsBounded) {
  ApiWorld world;
  const std::string full(kTextBytesMax, 'x');
  EXPECT_EQ(world.post("/tokenize", R"({"prompt":")" + full + R"("})")->sent->status, 200);
  expect_refused(*world.post("/tokenize", R"({"prompt":")" + full + R"(x"})"), 413,
                 "request_too_large", "prompt");
  expect_refused(*world.post("/tokenize", R"({"prompt":["x",")" + full + R"("]})"), 413,
                 "request_too_large", "prompt");
  expect_refused(*world.post("/tokenize", R"({"content":")" + full + R"(x"})"), 413,
                 "request_too_large", "content");
  expect_refused(
      *world.post("/tokenize", R"({"messages":[{"role":"user","content":")" + full + R"("}]})"),
      413, "request_too_large", "messages");
  std::string many = R"({"prompt":[")";
  for (size_t i = 0; i < kTextPromptsMax; ++i) many += R"(a",")";
  expect_refused(*world.post("/tokenize", many + R"(a"]})"), 400, "invalid_value", "prompt");
}

TEST(Detokenize, GivesTheTextUnderEachOfItsThreeNames) {
  ApiWorld world;
  for (const char* path : {"/detokenize", "/v1/detokenize"}) {
    const auto body = world.post(path, R"({"tokens":[258,97,98]})")->body();
    for (const char* name : {"prompt", "text", "content"}) {
      EXPECT_EQ(text(body.at(name)), "<s>ab");
    }
  }
  const auto bare =
      world.post("/detokenize", R"({"tokens":[258,97],"skip_special_tokens":true})")->body();
  EXPECT_EQ(text(bare.at("text")), "a");
  EXPECT_EQ(text(world.post("/detokenize", R"({"tokens":[]})")->body().at("prompt")), "");
  // Half a character is no text.
  EXPECT_EQ(text(world.post("/detokenize", R"({"tokens":[195]})")->body().at("prompt")),
            "\xEF\xBF\xBD");
  const auto list = world.post("/detokenize", R"({"tokens":[[97],[98,99]]})")->body();
  EXPECT_EQ(text(list.at("text").as_array().at(1)), "bc");
}

TEST(Detokenize, BadIdsAreNamedWithTheirIndex) {
  ApiWorld world;
  const auto post = [&](const char* body) { return world.post("/detokenize", body); };
  expect_refused(*post(R"({"tokens":[1,264]})"), 400, "invalid_value", "tokens[1]");
  expect_refused(*post(R"({"tokens":[-1]})"), 400, "invalid_value", "tokens[0]");
  expect_refused(*post(R"({"tokens":[1,2,"x"]})"), 400, "invalid_type", "tokens[2]");
  expect_refused(*post(R"({"tokens":[[1],[99999999999]]})"), 400, "invalid_value", "tokens[1][0]");
  expect_refused(*post(R"({"tokens":[[1],2]})"), 400, "invalid_type", "tokens[1]");
  expect_refused(*post(R"({"tokens":"abc"})"), 400, "invalid_type", "tokens");
  expect_refused(*post("{}"), 400, "missing_required_parameter", "tokens");
}

TEST(Detokenize, TheTextOfOneAnswerIsBounded) {
  ApiWorld world;
  // Twelve bytes an id.
  std::string request = R"({"tokens":[256)";
  for (size_t i = 0; i < kTextBytesMax / 12; ++i) request += ",256";
  expect_refused(*world.post("/detokenize", request + "]}"), 413, "request_too_large", "tokens");
}

TEST(ApplyTemplate, RendersWithoutGenerating) {
  ApiWorld world;
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  EXPECT_EQ(text(world.post("/apply-template", "{" + messages + "}")->body().at("prompt")),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_TRUE(world.generator.submitted.empty());
  expect_refused(*world.post("/apply-template", "{}"), 400, "missing_required_parameter",
                 "messages");
  expect_refused(*world.post("/apply-template", R"({"messages":[{"role":"tool","content":"x",
                                                    "tool_call_id":"1"}]})"),
                 400, "invalid_value", "messages");
}

TEST(TokenizerInfo, HoldsWhatEvaluationHarnessesRead) {
  ApiWorld world;
  const auto body = world.get("/tokenizer_info")->body();
  for (const char* name : {"tokenizer_class", "eos_token", "bos_token", "pad_token",
                           "chat_template", "model_max_length"}) {
    EXPECT_TRUE(body.contains(name)) << name;
  }
  EXPECT_EQ(text(body.at("tokenizer_class")), "PreTrainedTokenizerFast");
  EXPECT_TRUE(body.at("pad_token").is_null());
  EXPECT_TRUE(body.at("add_bos_token").as_bool());
}

}  // namespace
}  // namespace bulkhead::api
