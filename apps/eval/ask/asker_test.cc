#include "apps/eval/ask/asker.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "apps/eval/ask/completion.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

http::ClientResponse response(int status, const std::string& body,
                              const std::vector<http::Header>& headers = {}) {
  return {status, headers, body};
}

// Answers what it was given, in turn, and keeps what it was asked.
class Script {
 public:
  void answer(base::Result<http::ClientResponse> result) { answers_.push_back(std::move(result)); }
  void answer(const std::string& body) { answer(response(200, body)); }

  Server server(unsigned retries = 2) {
    return Server(
        [this](const std::string& method, const std::string& target,
               const std::string& body) -> base::Result<http::ClientResponse> {
          asked.push_back(method + " " + target);
          bodies.push_back(body);
          if (answers_.empty()) return response(500, "the script is over");
          base::Result<http::ClientResponse> next = std::move(answers_.front());
          answers_.pop_front();
          return next;
        },
        {retries, [this](milliseconds time) {
           waits.push_back(time.count());
           return patient;
         }});
  }
  json::object body(size_t index) const { return json::parse(bodies[index]).as_object(); }

  std::vector<std::string> asked, bodies;
  std::vector<int64_t> waits;
  bool patient = true;

 private:
  std::deque<base::Result<http::ClientResponse>> answers_;
};

TEST(EvalServer, WhatMayPassIsTriedAgain) {
  Script script;
  script.answer(base::Error{base::ErrorCode::kIo, "no connection", {}});
  script.answer(response(429, "{}", {{"Retry-After", "3"}}));
  script.answer("{\"ok\": true}");
  Server server = script.server();
  ASSERT_TRUE(server.post("/x", "b").ok());
  EXPECT_THAT(script.waits, ElementsAre(500, 3000));
  EXPECT_THAT(script.asked, ElementsAre("POST /x", "POST /x", "POST /x"));
}

TEST(EvalServer, ItGivesUpWithTheServersWords) {
  Script script;
  for (int i = 0; i < 3; ++i) {
    script.answer(response(503, R"({"error": {"message": "draining"}})"));
  }
  Server server = script.server();
  const auto result = server.post("/x", "");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, base::ErrorCode::kUnavailable);
  EXPECT_EQ(result.error().message, "/x answered 503: draining (tried 3 times)");
  EXPECT_THAT(script.waits, ElementsAre(500, 1000));
}

TEST(EvalServer, ARefusalIsFinal) {
  Script script;
  script.answer(response(400, R"({"error": {"message": "too long"}})"));
  script.answer(response(401, "who are you?"));
  script.answer("[1]");
  Server server = script.server();
  EXPECT_EQ(server.post("/x", "").error().message, "/x answered 400: too long");
  EXPECT_EQ(server.get("/y").error().message, "/y answered 401: who are you?");
  EXPECT_EQ(server.get("/z").error().code, base::ErrorCode::kCorruptData);
  EXPECT_THAT(script.waits, IsEmpty());
}

TEST(EvalServer, ALongWaitIsCutAndAnEndedRunDoesNotWait) {
  Script script;
  script.answer(response(429, "{}", {{"retry-after", "86400"}}));
  script.patient = false;
  Server server = script.server();
  EXPECT_EQ(server.get("/x").error().code, base::ErrorCode::kUnavailable);
  EXPECT_THAT(script.waits, ElementsAre(30'000));
}

TEST(LookAt, FindsModelLengthTokenizerAndLikelyTokens) {
  Script script;
  script.answer(R"({"data": [{"id": "a"}, {"id": "b", "max_model_len": 512}]})");
  script.answer(R"({"tokens": [7]})");
  script.answer(response(400, R"({"error": {"message": "logprobs at most 5"}})"));
  script.answer("{}");
  script.answer(R"({"bos_token": null, "eos_token": "<end>"})");
  script.answer(R"({"tokens": [2]})");
  Server server = script.server();
  const auto facts = look_at(server, {"b", 0, true, true});
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_EQ(facts->model, "b");
  EXPECT_EQ(facts->length_max, 512);
  EXPECT_TRUE(facts->tokenizes);
  EXPECT_EQ(facts->top_max, 5);
  EXPECT_EQ(facts->prefix, 2);
  EXPECT_EQ(script.body(5)["prompt"].as_string(), "<end>");
}

TEST(LookAt, AServerWithoutATokenizerTakesTexts) {
  Script script;
  script.answer(R"({"data": [{"id": "a"}]})");
  script.answer(response(404, "{}"));
  script.answer("{}");
  Server server = script.server();
  const auto facts = look_at(server, {"", 0, true, false});
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_FALSE(facts->tokenizes);
  EXPECT_EQ(facts->top_max, 20);

  Script none;
  none.answer(R"({"data": [{"id": "a"}]})");
  Server other = none.server();
  EXPECT_THAT(look_at(other, {"b", 0, false, false}).error().message, HasSubstr("no model 'b'"));
}

TEST(RollingWindows, AreDisjointAndTheLastIsFilledUp) {
  const auto text = [](int64_t tokens, int64_t length) {
    std::string all;
    for (const Window& window : rolling_windows(tokens, length)) {
      all += fmt::format("{}:{}-{} ", window.context_begin, window.begin, window.end);
    }
    return all;
  };
  EXPECT_EQ(text(10, 4), "0:0-4 3:4-8 5:8-10 ");
  EXPECT_EQ(text(8, 4), "0:0-4 3:4-8 ");
  EXPECT_EQ(text(3, 4), "0:0-3 ");
  EXPECT_EQ(text(0, 4), "");
}

ServerFacts facts_with_tokens(int64_t length = 100) { return {"m", true, length, 20, 0}; }

TEST(Asker, GeneratesFromTheEndOfALongPrompt) {
  Script script;
  script.answer(R"({"tokens": [1, 2, 3, 4, 5]})");
  script.answer(R"({"choices": [{"index": 0, "text": " 7"}], "usage": {"prompt_tokens": 3,)"
                R"( "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}})");
  Asker asker(script.server(), facts_with_tokens(14), false);
  const auto reply = asker.ask(GenerateAsk{"Q", 10, {"\n"}});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->text, " 7");
  EXPECT_TRUE(reply->truncated);
  EXPECT_EQ(reply->prompt_tokens, 3u);
  EXPECT_EQ(reply->cached_tokens, 1u);
  EXPECT_EQ(reply->output_tokens, 2u);
  const json::object body = script.body(1);
  EXPECT_EQ(json::serialize(body.at("prompt")), "[3,4,5]");
  EXPECT_EQ(json::serialize(body.at("stop")), "[\"\\n\"]");
  EXPECT_EQ(body.at("temperature").as_int64(), 0);
  EXPECT_EQ(script.body(0)["add_special_tokens"].as_bool(), false);
}

constexpr const char* kTop =
    R"({"choices": [{"index": 0, "text": "x", "logprobs": {"top_logprobs":)"
    R"( [{"token_id:8": -0.5, "token_id:9": -1.5, "token_id:3": -2}]}}]})";

TEST(Asker, LettersAreReadFromTheLikelyNextTokens) {
  Script script;
  script.answer(R"({"tokens": [1, 2]})");
  script.answer(R"({"tokens": [1, 2, 9]})");
  script.answer(R"({"tokens": [1, 2, 8]})");
  script.answer(R"({"tokens": [1, 2, 5]})");
  script.answer(kTop);
  script.answer(R"({"tokens": [4, 2]})");
  script.answer(kTop);
  Asker asker(script.server(), facts_with_tokens(), false);
  for (int i = 0; i < 2; ++i) {
    const auto reply =
        asker.ask(ChoicesAsk{fmt::format("{}\nAnswer:", i), {" A", " B", " C"}, true});
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_THAT(reply->scores, ElementsAre(-1.5, -0.5, std::nullopt));
  }
  // The second context ends as the first one does, so its letters are known.
  EXPECT_EQ(script.asked.size(), 7u);
  EXPECT_EQ(json::serialize(script.body(6)["prompt"]), "[4,2]");
  EXPECT_EQ(script.body(6)["logprobs"].as_int64(), 20);
}

TEST(Asker, LettersThatAreNotLikelyAreScoredByPrompts) {
  Script script;
  script.answer(R"({"tokens": [1]})");
  script.answer(R"({"tokens": [1, 6]})");
  script.answer(R"({"tokens": [1, 7]})");
  script.answer(kTop);
  script.answer(R"({"tokens": [1, 6]})");
  script.answer(R"({"tokens": [1, 7]})");
  script.answer(R"({"choices": [)"
                R"({"index": 1, "logprobs": {"token_logprobs": [null, -9, -1]}},)"
                R"({"index": 0, "logprobs": {"token_logprobs": [null, -8, -1]}}]})");
  Asker asker(script.server(), facts_with_tokens(), false);
  const auto reply = asker.ask(ChoicesAsk{"Answer:", {" A", " B"}, true});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_THAT(reply->scores, ElementsAre(-8.0, -9.0));
  EXPECT_EQ(json::serialize(script.body(6)["prompt"]), "[[1,6],[1,7]]");
  EXPECT_EQ(script.body(6)["echo"].as_bool(), true);
}

TEST(Asker, AChoicesTokensAreThoseBehindTheContexts) {
  Script script;
  script.answer(R"({"tokens": [1, 2, 3]})");
  script.answer(R"({"tokens": [1, 2, 3, 4, 5]})");
  script.answer(R"({"tokens": [1, 2, 9, 6]})");
  script.answer(R"({"choices": [)"
                R"({"index": 0, "logprobs": {"token_logprobs": [null, -1, -2, -1]}},)"
                R"({"index": 1, "logprobs": {"token_logprobs": [null, -1, -4, -1]}}]})");
  // Four places: the longer prompt loses its first tokens.
  Asker asker(script.server(), facts_with_tokens(4), false);
  const auto reply = asker.ask(ChoicesAsk{"Q", {" x y", " z"}});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(json::serialize(script.body(3)["prompt"]), "[[3,4,5],[2,9,6]]");
  EXPECT_THAT(reply->scores, ElementsAre(-3.0, -4.0));
  EXPECT_TRUE(reply->truncated);
}

TEST(Asker, WithoutATokenizerTheTextSaysWhereAChoiceBegins) {
  Script script;
  const auto choice = [](int index, const char* last, int offset) {
    return fmt::format(R"({{"index": {}, "logprobs": {{"tokens": ["<s>", "Ü:", "{}", "!"],)"
                       R"( "token_logprobs": [null, -1, -2, -3], "text_offset": [0, 0, {}, 4]}}}})",
                       index, last, offset);
  };
  script.answer("{\"choices\": [" + choice(0, " x", 2) + "," + choice(1, " y", 2) + "]}");
  script.answer("{\"choices\": [" + choice(0, ": x", 1) + "," + choice(1, " y", 2) + "]}");
  Asker asker(script.server(), {"m", false, 100, 20, {}}, false);
  const auto reply = asker.ask(ChoicesAsk{"Ü:", {" x", " y"}});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_THAT(reply->scores, ElementsAre(-2.0, -2.0));
  EXPECT_EQ(json::serialize(script.body(0)["prompt"]), "[\"Ü: x\",\"Ü: y\"]");
  const auto apart = asker.ask(ChoicesAsk{"Ü:", {" x", " y"}});
  ASSERT_FALSE(apart.ok());
  EXPECT_THAT(apart.error().message, HasSubstr("/tokenize"));
}

TEST(Asker, AWholeTextIsScoredInWindows) {
  Script script;
  script.answer(R"({"tokens": [11, 12, 13]})");
  script.answer(R"({"choices": [{"logprobs": {"token_logprobs": [null, -1, -2, -7]}}]})");
  script.answer(R"({"choices": [{"logprobs": {"token_logprobs": [null, -4, -8, -7]}}]})");
  Asker asker(script.server(), facts_with_tokens(4), false);
  const auto reply = asker.ask(RollingAsk{"text"});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(json::serialize(script.body(1)["prompt"]), "[0,11,12]");
  EXPECT_EQ(json::serialize(script.body(2)["prompt"]), "[11,12,13]");
  EXPECT_THAT(reply->scores, ElementsAre(-11.0));
}

TEST(Asker, AChatBringsTextAndCalls) {
  Script script;
  script.answer(R"({"choices": [{"message": {"content": null, "tool_calls": [{"function":)"
                R"( {"name": "f", "arguments": "{}"}}, {"function": 5}]}}]})");
  Asker asker(script.server(), facts_with_tokens(), false);
  const auto reply = asker.ask(ChatAsk{R"([{"role":"user"}])", R"([{"type":"function"}])", 9});
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  ASSERT_EQ(reply->calls.size(), 2u);
  EXPECT_EQ(reply->calls[0].name, "f");
  EXPECT_EQ(reply->calls[0].arguments, "{}");
  EXPECT_EQ(reply->calls[1].name, "");
  EXPECT_EQ(script.body(0)["max_tokens"].as_int64(), 9);
  EXPECT_EQ(json::serialize(script.body(0)["tools"]), R"([{"type":"function"}])");
}

TEST(Completion, AnAnswerThatLacksWhatWasAskedForIsRefused) {
  const auto value = [](const char* text) { return json::parse(text); };
  EXPECT_FALSE(choices_of(value("{}"), 1).ok());
  EXPECT_FALSE(choices_of(value(R"({"choices": [{"index": 0}, {"index": 2}]})"), 2).ok());
  EXPECT_FALSE(choices_of(value(R"({"choices": [5]})"), 1).ok());
  EXPECT_FALSE(completion_text(value(R"({"text": 5})")).ok());
  EXPECT_FALSE(echoed_score(value("{}"), 0, 1).ok());
  EXPECT_FALSE(echoed_score(value(R"({"logprobs": {"token_logprobs": [null]}})"), 0, 1).ok());
  EXPECT_FALSE(echoed_score(value(R"({"logprobs": {"token_logprobs": [1e999]}})"), 0, 1).ok());
  EXPECT_FALSE(echoed_text_score(value(R"({"logprobs": {"token_logprobs": [-1]}})"), 0, "a").ok());
  EXPECT_EQ(top_score(value(R"({"logprobs": {"top_logprobs": [{" A": "x"}]}})"), {}, " A"),
            std::nullopt);
  EXPECT_EQ(top_score(value(R"({"logprobs": {"top_logprobs": [{" A": -2}]}})"), 5, " A"), -2.0);
  Reply reply;
  EXPECT_FALSE(read_message(value(R"({"message": null})"), reply).ok());
}

}  // namespace
}  // namespace bulkhead::apps::eval
