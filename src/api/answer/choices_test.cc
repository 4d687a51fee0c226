// Answers of several choices: numbering, interleaving, sharing, failures, figures.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "api/test_doubles.h"
#include "base/rng.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::ByteTokenizer;
using testing::MemoryWriter;
using testing::ScriptedGenerator;
using wire::FinishReason;

constexpr std::string_view kStreamUsage =
    R"(,"stream":true,"stream_options":{"include_usage":true})";

boost::json::object parse(const std::string& text) { return boost::json::parse(text).as_object(); }

std::string text_of(const boost::json::value& value) {
  return value.is_string() ? std::string(value.get_string().c_str()) : std::string();
}

// One choice as a client joins it.
struct Joined {
  std::string text;
  std::string finish_reason;
  int64_t completion_tokens = 0;  // as its finish chunk tells
  size_t openings = 0;
  size_t finishes = 0;
};

struct Stream {
  std::map<int64_t, Joined> choices;
  boost::json::value usage;
  size_t usage_chunks = 0;
  bool done = false;
  bool error = false;
};

void join(const boost::json::object& choice, Stream& out) {
  Joined& joined = out.choices[choice.at("index").as_int64()];
  EXPECT_EQ(joined.finishes, 0u) << "nothing follows a choice's finish chunk";
  if (const boost::json::value* delta = choice.if_contains("delta")) {
    if (delta->as_object().contains("role")) {
      ++joined.openings;
      EXPECT_EQ(joined.text, "") << "the opening chunk comes first";
    }
    if (delta->as_object().contains("content")) joined.text += text_of(delta->at("content"));
  } else {
    joined.text += text_of(choice.at("text"));
  }
  if (choice.at("finish_reason").is_null()) return;
  ++joined.finishes;
  joined.finish_reason = text_of(choice.at("finish_reason"));
  joined.completion_tokens = choice.at("usage").at("completion_tokens").as_int64();
}

Stream read(const MemoryWriter& writer) {
  Stream out;
  for (const std::string& event : writer.events()) {
    EXPECT_FALSE(out.done) << "nothing follows [DONE]";
    if (event == "[DONE]") {
      out.done = true;
      continue;
    }
    const boost::json::object chunk = parse(event);
    if (chunk.contains("error")) {
      out.error = true;
      continue;
    }
    EXPECT_EQ(out.usage_chunks, 0u) << "the usage chunk is the last one";
    const boost::json::array& choices = chunk.at("choices").as_array();
    if (choices.empty()) {
      ++out.usage_chunks;
      out.usage = chunk.at("usage");
      continue;
    }
    EXPECT_EQ(choices.size(), 1u);
    join(choices[0].as_object(), out);
  }
  return out;
}

std::string prompts_and(const std::string& prompts, const std::string& fields) {
  return R"({"prompt":)" + prompts + fields + "}";
}

TEST(Choices, AreNumberedPromptByPromptAndSubmittedTogether) {
  ApiWorld world;
  world.post("/v1/completions", prompts_and(R"(["a","b"])", R"(,"n":3,"seed":7)"));
  ASSERT_EQ(world.generator.submitted.size(), 6u);
  std::set<wire::RequestId> ids;
  for (size_t i = 0; i < 6; ++i) {
    const wire::GenerateRequest& request = world.generator.submitted[i].request;
    ids.insert(request.id);
    EXPECT_EQ(request.prompt.back(), i < 3 ? 'a' : 'b');
    const auto first = world.generator.submitted[i < 3 ? 0 : 3].request.id;
    EXPECT_EQ(request.leader, i % 3 == 0 ? 0 : first);
    EXPECT_EQ(request.sampling.seed == 7, i % 3 == 0) << "the first choice has the seed itself";
    EXPECT_EQ(request.sampling.seed, world.generator.submitted[i % 3].request.sampling.seed)
        << "a prompt gets the same seeds wherever it stands";
  }
  EXPECT_EQ(ids.size(), 6u);
}

TEST(Choices, OfGreedyRequestsAreAccepted) {
  ApiWorld world;
  world.chat(R"(,"n":4,"temperature":0)");
  EXPECT_EQ(world.generator.submitted.size(), 4u);
}

TEST(Choices, OfAWholeAnswerStandInOrderWhateverTheOrderOfTheirEnds) {
  ApiWorld world;
  const auto writer = world.chat(R"(,"n":4)");
  for (const size_t i : {2u, 0u, 3u, 1u}) {
    EXPECT_EQ(writer->answers, 0);
    auto& running = world.generator.submitted[i];
    world.generator.text(running, std::string(i + 1, static_cast<char>('a' + i)));
    world.generator.finish(running, i == 3 ? FinishReason::kLength : FinishReason::kStop);
    world.pump();
  }
  ASSERT_EQ(writer->answers, 1);
  const boost::json::object body = writer->body();
  const boost::json::array& choices = body.at("choices").as_array();
  ASSERT_EQ(choices.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i].at("index").as_int64(), static_cast<int64_t>(i));
    EXPECT_EQ(text_of(choices[i].at("message").at("content")),
              std::string(i + 1, static_cast<char>('a' + i)));
    EXPECT_EQ(text_of(choices[i].at("finish_reason")), i == 3 ? "length" : "stop");
  }
  const boost::json::object& usage = body.at("usage").as_object();
  const size_t prompt = world.generator.submitted[0].request.prompt.size();
  EXPECT_EQ(usage.at("prompt_tokens").as_int64(), static_cast<int64_t>(prompt));
  EXPECT_EQ(usage.at("completion_tokens").as_int64(), 1 + 2 + 3 + 4);
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens").as_int64(), 1)
      << "the first choice's alone";
}

// C163
TEST(Choices, OfAStreamInterleaveAndEachEndsOnce) {
  ApiWorld world;
  const auto writer = world.chat(R"(,"n":3)" + std::string(kStreamUsage));
  auto& all = world.generator.submitted;
  world.generator.text(all[1], "x");
  world.pump();
  EXPECT_EQ(read(*writer).choices.size(), 1u) << "a choice opens with its own first token";
  world.generator.text(all[0], "ab");
  world.generator.text(all[2], "mn");
  world.pump();
  world.generator.finish(all[2], FinishReason::kStop);
  world.pump();
  world.generator.text(all[1], "yz");
  world.generator.finish(all[1], FinishReason::kLength);
  world.generator.text(all[0], "c");
  world.pump();
  EXPECT_FALSE(writer->finished);
  world.generator.finish(all[0], FinishReason::kStop);
  world.pump();
  ASSERT_TRUE(writer->finished);
  const Stream stream = read(*writer);
  EXPECT_TRUE(stream.done);
  EXPECT_EQ(stream.usage_chunks, 1u);
  ASSERT_EQ(stream.choices.size(), 3u);
  const std::string texts[] = {"abc", "xyz", "mn"};
  for (const auto& [index, joined] : stream.choices) {
    EXPECT_EQ(joined.text, texts[index]);
    EXPECT_EQ(joined.openings, 1u);
    EXPECT_EQ(joined.finishes, 1u);
    EXPECT_EQ(joined.completion_tokens, static_cast<int64_t>(joined.text.size()));
  }
  EXPECT_EQ(stream.usage.at("completion_tokens").as_int64(), 8);
  EXPECT_EQ(stream.usage.at("prompt_tokens").as_int64(),
            static_cast<int64_t>(all[0].request.prompt.size()));
}

// Random tokens and ends of every choice, in random order.
std::shared_ptr<MemoryWriter> play(ApiWorld& world, const std::string& body, uint64_t seed) {
  base::Rng texts(seed);
  const auto writer = world.post("/v1/completions", body);
  auto& all = world.generator.submitted;
  std::vector<std::string> left;
  for (size_t i = 0; i < all.size(); ++i) {
    left.emplace_back();
    for (uint64_t k = texts.below(12); k > 0; --k) {
      left.back() += static_cast<char>('a' + texts.below(3));
    }
  }
  base::Rng order(seed + body.size());
  for (size_t open = all.size(); open > 0;) {
    const size_t i = order.below(all.size());
    if (!all[i].sink) continue;
    if (left[i].empty() || all[i].cancelled) {
      world.generator.finish(all[i],
                             all[i].cancelled ? FinishReason::kCancelled : FinishReason::kLength);
      --open;
    } else {
      world.generator.text(all[i], left[i].substr(0, 1));
      left[i].erase(0, 1);
    }
    if (order.below(3) == 0) world.pump();
  }
  world.pump();
  return writer;
}

// FOLD for many choices.
TEST(Choices, JoinedFromAStreamAreThoseOfTheWholeAnswer) {
  ApiWorld world;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const std::string fields = R"(,"n":2,"stop":["ab","cc"],"echo":true)";
    const std::string prompts = R"(["one","t",[111,119]])";
    const auto streamed =
        play(world, prompts_and(prompts, fields + std::string(kStreamUsage)), seed);
    world.generator.submitted.clear();
    const Stream stream = read(*streamed);
    const auto whole = play(world, prompts_and(prompts, fields), seed)->body();
    world.generator.submitted.clear();
    ASSERT_TRUE(stream.done);
    const boost::json::array& choices = whole.at("choices").as_array();
    ASSERT_EQ(choices.size(), 6u);
    for (const boost::json::value& choice : choices) {
      const Joined& joined = stream.choices.at(choice.at("index").as_int64());
      ASSERT_EQ(joined.text, text_of(choice.at("text")));
      ASSERT_EQ(joined.finish_reason, text_of(choice.at("finish_reason")));
    }
    ASSERT_EQ(stream.usage.at("completion_tokens"), whole.at("usage").at("completion_tokens"));
    ASSERT_EQ(stream.usage.at("prompt_tokens"), whole.at("usage").at("prompt_tokens"));
  }
}

TEST(Choices, AStopStringEndsItsOwnChoiceOnly) {
  ApiWorld world;
  const auto writer = world.chat(R"(,"n":2,"stop":["END"])");
  auto& all = world.generator.submitted;
  world.generator.text(all[0], "one END");
  world.pump();
  EXPECT_TRUE(all[0].cancelled);
  EXPECT_FALSE(all[1].cancelled);
  world.generator.finish(all[0], FinishReason::kCancelled);
  world.generator.text(all[1], "two");
  world.generator.finish(all[1], FinishReason::kLength);
  world.pump();
  const boost::json::object body = writer->body();
  const boost::json::array& choices = body.at("choices").as_array();
  EXPECT_EQ(text_of(choices[0].at("message").at("content")), "one ");
  EXPECT_EQ(text_of(choices[0].at("finish_reason")), "stop");
  EXPECT_EQ(text_of(choices[1].at("finish_reason")), "length");
}

TEST(Choices, OneThatFailsBeforeAnythingWasSentFailsTheWholeAnswer) {
  for (const bool stream : {false, true}) {
    ApiWorld world;
    const auto writer = world.chat(R"(,"n":3)" + (stream ? std::string(kStreamUsage) : ""));
    auto& all = world.generator.submitted;
    world.generator.finish(all[1], FinishReason::kError,
                           base::Error{base::ErrorCode::kInternal, "non-finite logits", {}});
    world.pump();
    ASSERT_EQ(writer->answers, 1);
    EXPECT_EQ(writer->sent->status, 500);
    EXPECT_TRUE(all[0].cancelled && all[2].cancelled) << "the others need not go on";
    world.generator.finish(all[0], FinishReason::kCancelled);
    world.generator.finish(all[2], FinishReason::kCancelled);
    world.pump();
    EXPECT_EQ(writer->answers, 1);
    EXPECT_NE(world.registry.expose().find("finished_reason=\"abort\"} 2"), std::string::npos);
  }
}

TEST(Choices, OneThatFailsInAStreamEndsItWithAnErrorEvent) {
  ApiWorld world;
  const auto writer = world.chat(R"(,"n":3)" + std::string(kStreamUsage));
  auto& all = world.generator.submitted;
  for (size_t i = 0; i < 3; ++i) world.generator.text(all[i], "a");
  world.generator.finish(all[0], FinishReason::kStop);
  world.pump();
  world.generator.finish(all[2], FinishReason::kError,
                         base::Error{base::ErrorCode::kInternal, "non-finite logits", {}});
  world.pump();
  EXPECT_TRUE(all[1].cancelled);
  EXPECT_TRUE(writer->finished);
  const size_t written = writer->streamed.size();
  world.generator.text(all[1], "late");
  world.generator.finish(all[1], FinishReason::kCancelled);
  world.pump();
  EXPECT_EQ(writer->streamed.size(), written) << "nothing follows the error";
  const Stream stream = read(*writer);
  EXPECT_TRUE(stream.error);
  EXPECT_FALSE(stream.done);
}

TEST(Choices, AClientThatLeavesCancelsAll) {
  ApiWorld world;
  const auto writer =
      world.post("/v1/completions", prompts_and(R"(["a","b"])", R"(,"n":2,"stream":true)"));
  auto& all = world.generator.submitted;
  world.generator.text(all[3], "x");
  world.generator.finish(all[3], FinishReason::kStop);
  world.pump();
  writer->abort();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(all[i].cancelled) << i;
    world.generator.finish(all[i], FinishReason::kCancelled);
  }
  EXPECT_FALSE(all[3].cancelled) << "it had ended";
  world.pump();
  EXPECT_NE(world.registry.expose().find("finished_reason=\"abort\"} 3"), std::string::npos);
}

TEST(Choices, ARefusalOfTheBatchIsOneAnswer) {
  ApiWorld world;
  world.generator.refusal = base::Error{base::ErrorCode::kResourceExhausted, "full", {}};
  const auto writer = world.chat(R"(,"n":5)");
  EXPECT_EQ(writer->answers, 1);
  EXPECT_EQ(writer->sent->status, 429);
}

TEST(Choices, MoreThanTheServerCanHoldAreRefusedForGood) {
  ApiWorld world;  // runs 8 and queues 8
  EXPECT_EQ(world.chat(R"(,"n":17)")->sent->status, 400);
  EXPECT_TRUE(world.generator.submitted.empty());
  world.chat(R"(,"n":16)");
  EXPECT_EQ(world.generator.submitted.size(), 16u);
}

TEST(Choices, CountTheirPromptOnceInTheMetrics) {
  ApiWorld world;
  const auto writer = world.chat(R"(,"n":3)");
  for (auto& running : world.generator.submitted) {
    world.generator.text(running, "abc");
    world.generator.finish(running, FinishReason::kStop);
  }
  world.pump();
  const boost::json::object body = writer->body();
  const std::string prompt = std::to_string(body.at("usage").at("prompt_tokens").as_int64());
  const std::string metrics = world.registry.expose();
  EXPECT_NE(metrics.find("vllm:prompt_tokens_total{model_name=\"tiny\"} " + prompt + "\n"),
            std::string::npos);
  EXPECT_NE(metrics.find("vllm:generation_tokens_total{model_name=\"tiny\"} 9\n"),
            std::string::npos);
}

TEST(TokenIds, OfPromptAndAnswerAreToldWhereTheyAreAskedFor) {
  ApiWorld world;
  const std::string ask = R"(,"return_token_ids":true,"n":2)";
  const auto finish_all = [&] {
    for (auto& running : world.generator.submitted) {
      world.generator.token(running, 'x');
      world.generator.token(running, ByteTokenizer::kHalfSmile);
      world.generator.token(running, ByteTokenizer::kStart);
      world.generator.finish(running, FinishReason::kLength);
    }
    world.pump();
  };
  const boost::json::array expected = {'x', ByteTokenizer::kHalfSmile, ByteTokenizer::kStart};
  const auto chat = world.chat(ask);
  const size_t prompt = world.generator.last().request.prompt.size();
  finish_all();
  world.generator.submitted.clear();
  const boost::json::object body = chat->body();
  EXPECT_EQ(body.at("prompt_token_ids").as_array().size(), prompt);
  EXPECT_EQ(body.at("choices").as_array()[1].at("token_ids").as_array(), expected);
  const auto plain = world.complete(ask);
  finish_all();
  world.generator.submitted.clear();
  const boost::json::object legacy = plain->body();
  const boost::json::array prompt_ids = {ByteTokenizer::kBos, 'h', 'i'};
  for (const boost::json::value& choice : legacy.at("choices").as_array()) {
    EXPECT_EQ(choice.at("prompt_token_ids").as_array(), prompt_ids);
    EXPECT_EQ(choice.at("token_ids").as_array(), expected);
  }
  const auto streamed = world.complete(ask + R"(,"stream":true)");
  finish_all();
  std::map<int64_t, boost::json::array> ids;
  size_t prompts = 0;
  for (const std::string& event : streamed->events()) {
    if (event == "[DONE]") continue;
    const boost::json::object chunk = parse(event);
    const boost::json::object& choice = chunk.at("choices").as_array()[0].as_object();
    prompts += choice.contains("prompt_token_ids") ? 1 : 0;
    if (!choice.contains("token_ids")) continue;
    for (const auto& id : choice.at("token_ids").as_array()) {
      ids[choice.at("index").as_int64()].push_back(id);
    }
  }
  EXPECT_EQ(prompts, 2u) << "once for each choice";
  EXPECT_EQ(ids[0], expected);
  EXPECT_EQ(ids[1], expected);
}

TEST(TokenIds, AreTheNamesOfTokensWhereThatIsAskedFor) {
  ApiWorld world;
  const auto run = [&](const std::shared_ptr<MemoryWriter>& writer) {
    world.generator.token(world.generator.last(), 'x');
    world.generator.finish(world.generator.last(), FinishReason::kLength);
    world.pump();
    return writer->body().at("choices").as_array()[0].at("logprobs").as_object();
  };
  const boost::json::object legacy =
      run(world.complete(R"(,"logprobs":1,"return_tokens_as_token_ids":true)"));
  EXPECT_EQ(text_of(legacy.at("tokens").as_array()[0]), "token_id:120");
  EXPECT_TRUE(legacy.at("top_logprobs").as_array()[0].as_object().contains("token_id:97"));
  const boost::json::object chat =
      run(world.chat(R"(,"logprobs":true,"top_logprobs":1,"return_tokens_as_token_ids":true)"));
  const boost::json::value& record = chat.at("content").as_array()[0];
  EXPECT_EQ(text_of(record.at("token")), "token_id:120");
  EXPECT_EQ(record.at("bytes").as_array().size(), 1u);
  EXPECT_EQ(text_of(record.at("top_logprobs").as_array()[0].at("token")), "token_id:97");
}

}  // namespace
}  // namespace bulkhead::api
