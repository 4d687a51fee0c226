// Prompts in answers: echo, their scores in both forms, and what scorers of texts rely on.
#include <gtest/gtest.h>

#include "api/test_doubles.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::ByteTokenizer;
using testing::MemoryWriter;
using testing::ScriptedGenerator;
using wire::FinishReason;

std::string text_of(const boost::json::value& value) {
  return value.is_string() ? std::string(value.get_string().c_str()) : std::string();
}

boost::json::object first_choice(const MemoryWriter& writer) {
  return writer.body().at("choices").as_array().at(0).as_object();
}

// Scores of prompt tokens [first, end), in the order that the generator sends them. The most
// probable token at each place is 'm'.
void score(ScriptedGenerator::Running& running, size_t first, size_t end) {
  wire::PromptEvent event;
  event.id = running.request.id;
  event.position = static_cast<int32_t>(first);
  for (size_t i = first; i < end; ++i) {
    wire::TokenEvent token;
    token.token = running.request.prompt[i];
    token.logprob = token.token == 'm' ? -0.1f : -1.0f - 0.25f * static_cast<float>(i);
    const wire::TokenLogprob top[] = {{'m', -0.1f}, {'n', -2.0f}, {'o', -3.0f}};
    for (int32_t k = 0; k < std::min(running.request.prompt_logprobs, 3); ++k) {
      token.top_logprobs.push_back(top[k]);
    }
    event.tokens.push_back(std::move(token));
  }
  running.sink->on_prompt(std::move(event));
}

void score_all(ScriptedGenerator::Running& running) {
  score(running, 1, running.request.prompt.size());
}

std::shared_ptr<MemoryWriter> post(ApiWorld& world, const std::string& body) {
  return world.post("/v1/completions", body);
}

TEST(Echo, PutsThePromptBeforeTheText) {
  for (const bool stream : {false, true}) {
    ApiWorld world;
    const auto writer = world.complete(std::string(R"(,"echo":true,"stop":["hi"])") +
                                       (stream ? R"(,"stream":true)" : ""));
    EXPECT_EQ(world.generator.last().request.prompt_logprobs, -1) << "nothing to score";
    world.generator.text(world.generator.last(), "!");
    world.generator.finish(world.generator.last(), FinishReason::kLength);
    world.pump();
    std::string text;
    if (stream) {
      for (const std::string& event : writer->events()) {
        if (event == "[DONE]") continue;
        text += text_of(boost::json::parse(event).at("choices").as_array()[0].at("text"));
      }
    } else {
      text = text_of(first_choice(*writer).at("text"));
    }
    EXPECT_EQ(text, "hi!") << "without the tokenizer's prefix; no stop string in the prompt counts";
  }
}

TEST(Echo, SpellsControlTokensOfThePromptButNotOfTheAnswer) {
  ApiWorld world;
  const auto writer = post(world, R"({"prompt":"<|im_start|>a","echo":true})");
  world.generator.token(world.generator.last(), ByteTokenizer::kStart);
  world.generator.token(world.generator.last(), 'b');
  world.generator.finish(world.generator.last(), FinishReason::kLength);
  world.pump();
  EXPECT_EQ(text_of(first_choice(*writer).at("text")), "<|im_start|>ab");
}

TEST(Echo, ACharacterThatThePromptBeginsAndTheAnswerEndsComesOutWhole) {
  ApiWorld world;
  const auto writer = post(world, R"({"prompt":[97,261],"echo":true})");
  world.generator.token(world.generator.last(), 0x98);
  world.generator.token(world.generator.last(), 0x80);
  world.generator.finish(world.generator.last(), FinishReason::kLength);
  world.pump();
  EXPECT_EQ(text_of(first_choice(*writer).at("text")), "a\xF0\x9F\x98\x80");
}

TEST(Echo, OfNothingButThePromptGeneratesNothing) {
  ApiWorld world;
  const auto writer = world.complete(R"(,"echo":true,"max_tokens":0,"n":2)");
  for (auto& running : world.generator.submitted) {
    EXPECT_EQ(running.request.max_tokens, 0);
    EXPECT_EQ(running.request.prompt_logprobs, 0) << "a request for no tokens wants scores";
    score_all(running);
    world.generator.finish(running, FinishReason::kLength);
  }
  world.pump();
  const boost::json::object body = writer->body();
  for (const boost::json::value& choice : body.at("choices").as_array()) {
    EXPECT_EQ(text_of(choice.at("text")), "hi");
    EXPECT_EQ(text_of(choice.at("finish_reason")), "length");
    EXPECT_TRUE(choice.at("logprobs").is_null());
  }
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 0);
}

TEST(Scoring, ArraysCoverThePromptAndTheAnswerTokenByToken) {
  ApiWorld world;
  const auto writer =
      post(world, R"({"prompt":[258,97,109,98],"echo":true,"logprobs":1,"max_tokens":1})");
  auto& running = world.generator.last();
  EXPECT_EQ(running.request.prompt_logprobs, 1);
  score(running, 1, 3);
  world.pump();
  score(running, 3, 4);
  world.generator.token(running, 'x');
  world.generator.finish(running, FinishReason::kLength);
  world.pump();
  const boost::json::object choice = first_choice(*writer);
  const boost::json::object& logprobs = choice.at("logprobs").as_object();
  const boost::json::array tokens = {"<s>", "a", "m", "b", "x"};
  EXPECT_EQ(logprobs.at("tokens").as_array(), tokens);
  const boost::json::array& values = logprobs.at("token_logprobs").as_array();
  ASSERT_EQ(values.size(), 5u);
  EXPECT_TRUE(values[0].is_null()) << "the first token has no score";
  EXPECT_DOUBLE_EQ(values[1].as_double(), -1.25);
  const boost::json::array& top = logprobs.at("top_logprobs").as_array();
  EXPECT_TRUE(top[0].is_null());
  EXPECT_EQ(top[1].as_object().size(), 2u) << "the token itself and the most probable one";
  EXPECT_EQ(top[2].as_object().size(), 1u) << "they are the same";
  EXPECT_EQ(top[2].at("m").as_double(), values[2].as_double()) << "to the last bit";
  EXPECT_EQ(top[1].at("m").as_double(), values[2].as_double());
  const boost::json::array offsets = {0, 3, 4, 5, 6};
  EXPECT_EQ(logprobs.at("text_offset").as_array(), offsets);
  EXPECT_EQ(text_of(choice.at("text")), "<s>ambx");
}

TEST(Scoring, TheTokenizersPrefixHasAnEntryAndNoText) {
  ApiWorld world;
  const auto writer = world.complete(R"(,"echo":true,"logprobs":0)");
  score_all(world.generator.last());
  world.generator.finish(world.generator.last(), FinishReason::kLength);
  world.pump();
  const boost::json::object choice = first_choice(*writer);
  EXPECT_EQ(text_of(choice.at("text")), "hi");
  const boost::json::array tokens = {"<s>", "h", "i"};
  const boost::json::array offsets = {0, 0, 1};
  EXPECT_EQ(choice.at("logprobs").at("tokens").as_array(), tokens);
  EXPECT_EQ(choice.at("logprobs").at("text_offset").as_array(), offsets);
}

// Who scores texts drops the last entry as the generated token: it must be there whatever it is.
TEST(Scoring, AnEndTokenHasAnEntryToo) {
  for (const bool stream : {false, true}) {
    ApiWorld world;
    const auto writer = world.complete(std::string(R"(,"echo":true,"logprobs":1,"max_tokens":1)") +
                                       (stream ? R"(,"stream":true)" : ""));
    auto& running = world.generator.last();
    EXPECT_TRUE(running.request.stop_ids.empty()) << "so the generator sends it";
    score_all(running);
    world.generator.token(running, ByteTokenizer::kEnd);
    world.pump();
    EXPECT_TRUE(running.cancelled);
    world.generator.finish(running, FinishReason::kLength);
    world.pump();
    size_t entries = 0;
    std::string reason;
    std::string text;
    boost::json::array choices;
    if (stream) {
      for (const std::string& event : writer->events()) {
        if (event != "[DONE]") {
          choices.push_back(boost::json::parse(event).at("choices").as_array()[0]);
        }
      }
    } else {
      choices.push_back(first_choice(*writer));
      EXPECT_EQ(writer->body().at("usage").at("completion_tokens").as_int64(), 0)
          << "the end token is not counted";
    }
    for (const boost::json::value& choice : choices) {
      text += text_of(choice.at("text"));
      if (!choice.at("finish_reason").is_null()) reason = text_of(choice.at("finish_reason"));
      if (!choice.at("logprobs").is_object()) continue;
      entries += choice.at("logprobs").at("tokens").as_array().size();
    }
    EXPECT_EQ(entries, 4u);
    EXPECT_EQ(text, "hi");
    EXPECT_EQ(reason, "stop");
  }
}

TEST(Scoring, ControlTokensOfTheAnswerHaveEntriesInTheLegacyForm) {
  ApiWorld world;
  const auto writer = world.complete(R"(,"logprobs":0)");
  auto& running = world.generator.last();
  for (const wire::TokenId id : {int('a'), int(ByteTokenizer::kStart), int('b')}) {
    world.generator.token(running, id);
  }
  world.generator.finish(running, FinishReason::kLength);
  world.pump();
  const boost::json::object choice = first_choice(*writer);
  const boost::json::array tokens = {"a", "<|im_start|>", "b"};
  const boost::json::array offsets = {0, 1, 1};
  EXPECT_EQ(text_of(choice.at("text")), "ab");
  EXPECT_EQ(choice.at("logprobs").at("tokens").as_array(), tokens);
  EXPECT_EQ(choice.at("logprobs").at("text_offset").as_array(), offsets);
}

TEST(Scoring, TwoTokensOfOneNameKeepBothValues) {
  ApiWorld world;
  const auto writer = world.complete(R"(,"logprobs":2)");
  auto& running = world.generator.last();
  wire::TokenEvent event;
  event.token = -1;  // no such token: its name is empty, as the next one's
  event.logprob = -4.0f;
  event.top_logprobs = {{-2, -0.5f}, {'y', -1.0f}};
  ++running.tokens;
  running.sink->on_token(std::move(event));
  world.generator.finish(running, FinishReason::kLength);
  world.pump();
  const boost::json::object choice = first_choice(*writer);
  const boost::json::object& top =
      choice.at("logprobs").at("top_logprobs").as_array()[0].as_object();
  EXPECT_EQ(top.at("").as_double(), -4.0);
  EXPECT_EQ(top.at("token_id:-2").as_double(), -0.5) << "the greatest value is there";
}

TEST(Scoring, IsAskedForOncePerPromptAndToldForEveryChoice) {
  ApiWorld world;
  const auto writer = post(world, R"({"prompt":["ab","cd"],"echo":true,"logprobs":1,"n":2})");
  auto& all = world.generator.submitted;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].request.prompt_logprobs, i % 2 == 0 ? 1 : -1);
  }
  score_all(all[0]);
  score_all(all[2]);
  for (auto& running : all) {
    world.generator.text(running, "x");
    world.generator.finish(running, FinishReason::kLength);
  }
  world.pump();
  const boost::json::object body = writer->body();
  for (const boost::json::value& choice : body.at("choices").as_array()) {
    const boost::json::array& values = choice.at("logprobs").at("token_logprobs").as_array();
    ASSERT_EQ(values.size(), 4u);
    EXPECT_TRUE(values[0].is_null());
    EXPECT_DOUBLE_EQ(values[2].as_double(), -1.5);
  }
}

TEST(PromptLogprobs, HaveTheFormThatToolsKnow) {
  ApiWorld world;
  const auto writer = post(world, R"({"prompt":[97,98,109],"prompt_logprobs":1})");
  score_all(world.generator.last());
  world.generator.text(world.generator.last(), "x");
  world.generator.finish(world.generator.last(), FinishReason::kLength);
  world.pump();
  const boost::json::object choice = first_choice(*writer);
  const boost::json::array& list = choice.at("prompt_logprobs").as_array();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_TRUE(list[0].is_null());
  EXPECT_EQ(list[1].as_object().size(), 2u);
  EXPECT_DOUBLE_EQ(list[1].at("98").at("logprob").as_double(), -1.25);
  EXPECT_EQ(text_of(list[1].at("109").at("decoded_token")), "m");
  EXPECT_EQ(list[2].as_object().size(), 1u);
  EXPECT_EQ(text_of(choice.at("text")), "x") << "the prompt is not echoed";
}

TEST(PromptLogprobs, OfAChatStandBesideItsChoices) {
  ApiWorld world;
  const auto writer = world.chat(R"(,"prompt_logprobs":0,"n":2)");
  EXPECT_EQ(world.generator.submitted[1].request.prompt_logprobs, -1);
  score_all(world.generator.submitted[0]);
  for (auto& running : world.generator.submitted) {
    world.generator.finish(running, FinishReason::kStop);
  }
  world.pump();
  const boost::json::object body = writer->body();
  EXPECT_EQ(body.at("prompt_logprobs").as_array().size(),
            world.generator.last().request.prompt.size());
}

TEST(PromptLogprobs, ThatAreShortOrDoubledFailTheRequestOnly) {
  for (const bool doubled : {false, true}) {
    ApiWorld world;
    const auto writer = world.complete(R"(,"prompt_logprobs":0)");
    score(world.generator.last(), 1, 2);
    if (doubled) score(world.generator.last(), 1, 3);
    world.generator.text(world.generator.last(), "x");
    world.generator.finish(world.generator.last(), FinishReason::kLength);
    world.pump();
    EXPECT_EQ(writer->answers, 1);
    EXPECT_EQ(writer->sent->status, 500);
  }
}

}  // namespace
}  // namespace bulkhead::api
