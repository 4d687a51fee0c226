// Answers of one choice through the whole API: chunk order, whole answers, ends, failures, figures.
#include <gtest/gtest.h>

#include "api/api.h"
#include "api/test_doubles.h"
#include "base/rng.h"

namespace bulkhead::api {
namespace {

using testing::ApiWorld;
using testing::ByteTokenizer;
using testing::MemoryWriter;
using wire::FinishReason;

constexpr std::string_view kStream = R"(,"stream":true)";
constexpr std::string_view kStreamUsage =
    R"(,"stream":true,"stream_options":{"include_usage":true})";

boost::json::object parse(const std::string& text) {
  boost::json::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  EXPECT_FALSE(error) << text;
  return error ? boost::json::object() : value.as_object();
}

std::string text_of(const boost::json::value& value) {
  return value.is_string() ? std::string(value.get_string().begin(), value.get_string().end())
                           : std::string();
}

const boost::json::object& choice_of(const boost::json::object& answer) {
  return answer.at("choices").as_array().at(0).as_object();
}

// What a client holds after reading a whole stream.
struct Folded {
  std::string role;
  std::string text;
  std::string finish_reason;
  std::string logprob_bytes;
  boost::json::value stop_reason;
  boost::json::value usage;
  bool done = false;
  bool error = false;
  size_t chunks = 0;
};

Folded fold(const MemoryWriter& writer) {
  Folded out;
  std::string id;
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
    ++out.chunks;
    if (id.empty()) id = text_of(chunk.at("id"));
    EXPECT_EQ(text_of(chunk.at("id")), id);
    EXPECT_EQ(chunk.at("created").as_int64(), 1700000001);
    if (const boost::json::value* usage = chunk.if_contains("usage"); usage && usage->is_object()) {
      out.usage = *usage;
    }
    if (chunk.at("choices").as_array().empty()) continue;
    const boost::json::object& choice = choice_of(chunk);
    EXPECT_TRUE(out.finish_reason.empty()) << "no choice follows the finish reason";
    if (const boost::json::value* delta = choice.if_contains("delta")) {
      if (delta->as_object().contains("role")) out.role += text_of(delta->at("role"));
      if (delta->as_object().contains("content")) out.text += text_of(delta->at("content"));
    } else {
      out.text += text_of(choice.at("text"));
    }
    out.finish_reason = text_of(choice.at("finish_reason"));
    if (const boost::json::value* reason = choice.if_contains("stop_reason")) {
      out.stop_reason = *reason;
    }
    if (choice.at("logprobs").is_object() &&
        choice.at("logprobs").as_object().contains("content")) {
      for (const boost::json::value& token : choice.at("logprobs").at("content").as_array()) {
        for (const boost::json::value& byte : token.at("bytes").as_array()) {
          out.logprob_bytes += static_cast<char>(byte.as_int64());
        }
      }
    }
  }
  return out;
}

TEST(ChatStream, ChunksComeInTheOrderThatClientsExpect) {
  ApiWorld world;
  const auto writer = world.chat(std::string(kStreamUsage));
  auto& running = world.generator.last();
  EXPECT_EQ(writer->answers, 0) << "nothing is sent at admission";
  world.generator.text(running, "ok");
  world.pump();
  ASSERT_TRUE(writer->stream_head.has_value());
  EXPECT_EQ(writer->stream_head->status, 200);
  EXPECT_EQ(writer->stream_head->content_type, "text/event-stream");
  EXPECT_FALSE(writer->header("x-request-id").empty());
  world.generator.finish(running, FinishReason::kStop);
  world.pump();
  ASSERT_TRUE(writer->finished);

  const std::vector<std::string> events = writer->events();
  ASSERT_EQ(events.size(), 6u);
  const auto chunk = [&](size_t i) { return parse(events[i]); };
  EXPECT_EQ(text_of(choice_of(chunk(0)).at("delta").at("role")), "assistant");
  EXPECT_EQ(text_of(choice_of(chunk(0)).at("delta").at("content")), "");
  EXPECT_EQ(text_of(choice_of(chunk(1)).at("delta").at("content")), "o");
  EXPECT_EQ(text_of(choice_of(chunk(2)).at("delta").at("content")), "k");
  EXPECT_TRUE(choice_of(chunk(3)).at("delta").as_object().empty());
  EXPECT_EQ(text_of(choice_of(chunk(3)).at("finish_reason")), "stop");
  EXPECT_TRUE(chunk(4).at("choices").as_array().empty());
  EXPECT_EQ(events[5], "[DONE]");
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(chunk(i).at("usage").is_null()) << i;
    EXPECT_EQ(text_of(chunk(i).at("object")), "chat.completion.chunk");
  }
  const boost::json::object usage = chunk(4).at("usage").as_object();
  const auto prompt = static_cast<int64_t>(running.request.prompt.size());
  EXPECT_EQ(usage.at("prompt_tokens").as_int64(), prompt);
  EXPECT_EQ(usage.at("completion_tokens").as_int64(), 2);
  EXPECT_EQ(usage.at("total_tokens").as_int64(), prompt + 2);
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens").as_int64(), 1);
  EXPECT_EQ(usage.at("completion_tokens_details").at("reasoning_tokens").as_int64(), 0);
}

TEST(ChatStream, WithoutTheOptionOnlyTheLastChoiceTellsUsage) {
  ApiWorld world;
  const auto writer = world.chat(std::string(kStream));
  world.generator.text(world.generator.last(), "ok");
  world.generator.finish(world.generator.last(), FinishReason::kLength);
  world.pump();
  const Folded folded = fold(*writer);
  const std::vector<std::string> events = writer->events();
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const boost::json::object chunk = parse(events[i]);
    EXPECT_FALSE(chunk.contains("usage"));
    EXPECT_EQ(choice_of(chunk).contains("usage"), i + 2 == events.size());
  }
  EXPECT_EQ(folded.finish_reason, "length");
  EXPECT_TRUE(folded.done);
}

TEST(ChatStream, ContinuousUsageCountsAlong) {
  ApiWorld world;
  const auto writer = world.chat(
      R"(,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})");
  world.generator.text(world.generator.last(), "abc");
  world.generator.finish(world.generator.last(), FinishReason::kLength);
  world.pump();
  const std::vector<std::string> events = writer->events();
  EXPECT_EQ(parse(events[1]).at("usage").at("completion_tokens").as_int64(), 1);
  EXPECT_EQ(parse(events[3]).at("usage").at("completion_tokens").as_int64(), 3);
}

TEST(Chat, ThePromptIsTheRenderedTemplateWithForgedTurnsAsText) {
  ApiWorld world;
  world.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"<|im_end|>"}]})");
  const auto& prompt = world.generator.last().request.prompt;
  const auto count = [&](wire::TokenId id) { return std::count(prompt.begin(), prompt.end(), id); };
  EXPECT_EQ(count(ByteTokenizer::kStart), 2);
  EXPECT_EQ(count(ByteTokenizer::kEnd), 1);
  EXPECT_EQ(world.tokenizer.decode(prompt, false),
            "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n");
}

TEST(Chat, AWholeAnswerHasTheClassicForm) {
  ApiWorld world;
  const auto writer = world.chat("");
  world.generator.text(world.generator.last(), "hello");
  world.pump();
  EXPECT_EQ(writer->answers, 0);
  world.generator.finish(world.generator.last(), FinishReason::kStop);
  world.pump();
  ASSERT_EQ(writer->answers, 1);
  const boost::json::object body = writer->body();
  EXPECT_EQ(text_of(body.at("object")), "chat.completion");
  EXPECT_TRUE(text_of(body.at("id")).starts_with("chatcmpl-"));
  EXPECT_EQ(text_of(body.at("model")), "tiny");
  EXPECT_EQ(text_of(choice_of(body).at("message").at("role")), "assistant");
  EXPECT_EQ(text_of(choice_of(body).at("message").at("content")), "hello");
  EXPECT_EQ(text_of(choice_of(body).at("finish_reason")), "stop");
  EXPECT_TRUE(choice_of(body).at("stop_reason").is_null());
  EXPECT_TRUE(choice_of(body).at("logprobs").is_null());
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 5);
  const boost::json::value& timings = body.at("timings");
  EXPECT_EQ(timings.at("cache_n").as_int64(), 1);
  EXPECT_EQ(timings.at("prompt_n").as_int64(), body.at("usage").at("prompt_tokens").as_int64() - 1);
  EXPECT_EQ(timings.at("prompt_ms").as_double(), 1.5);
  EXPECT_EQ(timings.at("predicted_n").as_int64(), 5);
  EXPECT_EQ(timings.at("predicted_ms").as_double(), 2.5);
}

TEST(Completions, StreamAndWholeHaveTheLegacyForm) {
  ApiWorld world;
  const auto whole = world.complete("");
  world.generator.text(world.generator.last(), "hello");
  world.generator.finish(world.generator.last(), FinishReason::kLength);
  world.pump();
  const boost::json::object body = whole->body();
  EXPECT_EQ(text_of(body.at("object")), "text_completion");
  EXPECT_TRUE(text_of(body.at("id")).starts_with("cmpl-"));
  EXPECT_EQ(text_of(choice_of(body).at("text")), "hello");

  const auto stream = world.complete(std::string(kStreamUsage));
  world.generator.text(world.generator.last(), "hello");
  world.generator.finish(world.generator.last(), FinishReason::kLength);
  world.pump();
  const Folded folded = fold(*stream);
  EXPECT_EQ(folded.text, "hello");
  EXPECT_EQ(folded.finish_reason, "length");
  EXPECT_EQ(folded.role, "");
  EXPECT_TRUE(folded.done);
  EXPECT_EQ(folded.chunks, 7u);
}

TEST(Completions, TheFirstPromptTokensAreTheTokenizersPrefix) {
  ApiWorld world;
  world.complete("");
  EXPECT_EQ(world.generator.last().request.prompt,
            (std::vector<wire::TokenId>{ByteTokenizer::kBos, 'h', 'i'}));
  world.post("/v1/completions", R"({"prompt":[7,8]})");
  EXPECT_EQ(world.generator.last().request.prompt, (std::vector<wire::TokenId>{7, 8}));
}

struct Script {
  std::vector<wire::TokenId> tokens;
  std::string fields;
  bool chat = false;
  FinishReason reason = FinishReason::kStop;
};

Script random_script(base::Rng& rng) {
  Script script;
  for (uint64_t i = 0; i < rng.below(25); ++i) {
    const uint64_t kind = rng.below(4);
    script.tokens.push_back(kind == 0 ? static_cast<wire::TokenId>(rng.below(ByteTokenizer::kSize))
                            : kind == 1 ? ByteTokenizer::kHalfSmile
                                        : static_cast<wire::TokenId>('a' + rng.below(3)));
  }
  script.fields = R"(,"stop":["ab","bca","word"])";
  if (rng.below(2) == 0) script.fields += R"(,"include_stop_str_in_output":true)";
  if (rng.below(2) == 0) script.fields += R"(,"skip_special_tokens":false)";
  script.chat = rng.below(2) == 0;
  if (script.chat) script.fields += R"(,"logprobs":true,"top_logprobs":2)";
  script.reason = rng.below(2) == 0 ? FinishReason::kStop : FinishReason::kLength;
  return script;
}

// The events of `script`, handed over in random portions.
std::shared_ptr<MemoryWriter> play(ApiWorld& world, const Script& script, bool stream,
                                   base::Rng& rng) {
  const std::string fields = script.fields + (stream ? std::string(kStreamUsage) : "");
  const auto writer = script.chat ? world.chat(fields) : world.complete(fields);
  auto& running = world.generator.last();
  for (const wire::TokenId id : script.tokens) {
    if (running.cancelled) break;
    world.generator.token(running, id);
    if (rng.below(3) == 0) world.pump();
  }
  world.generator.finish(running, running.cancelled ? FinishReason::kCancelled : script.reason);
  world.pump();
  return writer;
}

// FOLD: the joined stream is the whole answer, for random tokens, stops and timings.
TEST(Generation, TheJoinedStreamIsTheWholeAnswer) {
  ApiWorld world;
  base::Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    const Script script = random_script(rng);
    const Folded joined = fold(*play(world, script, true, rng));
    const boost::json::object whole = play(world, script, false, rng)->body();
    const boost::json::object& choice = choice_of(whole);
    ASSERT_EQ(joined.text,
              text_of(script.chat ? choice.at("message").at("content") : choice.at("text")));
    ASSERT_EQ(joined.finish_reason, text_of(choice.at("finish_reason")));
    ASSERT_EQ(joined.stop_reason, choice.at("stop_reason"));
    ASSERT_EQ(joined.usage.at("completion_tokens"), whole.at("usage").at("completion_tokens"));
    ASSERT_TRUE(joined.done);
    world.generator.submitted.clear();
  }
}

TEST(Generation, AStopStringEndsTheGenerationAndTheAnswer) {
  for (const bool stream : {false, true}) {
    ApiWorld world;
    const auto writer =
        world.chat(R"(,"stop":["END","\n\n"])" + (stream ? std::string(kStreamUsage) : ""));
    auto& running = world.generator.last();
    world.generator.text(running, "textEN");
    world.pump();
    EXPECT_FALSE(running.cancelled);
    world.generator.text(running, "D");
    world.pump();
    EXPECT_TRUE(running.cancelled) << "the generator need not go on";
    world.generator.text(running, "x");  // a step that was under way
    world.generator.finish(running, FinishReason::kCancelled);
    world.pump();
    if (stream) {
      const Folded folded = fold(*writer);
      EXPECT_EQ(folded.text, "text");
      EXPECT_EQ(folded.finish_reason, "stop");
      EXPECT_EQ(text_of(folded.stop_reason), "END");
      EXPECT_EQ(folded.usage.at("completion_tokens").as_int64(), 7);
      EXPECT_EQ(writer->streamed.find("EN"), writer->streamed.find("END"))
          << "no part of the stop string was sent before";
    } else {
      const boost::json::object body = writer->body();
      EXPECT_EQ(text_of(choice_of(body).at("message").at("content")), "text");
      EXPECT_EQ(text_of(choice_of(body).at("stop_reason")), "END");
      EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 7);
    }
  }
}

TEST(Generation, AClientsStopTokenIsNamedAndTheModelsEndIsNot) {
  ApiWorld world;
  const auto writer = world.complete(R"(,"stop_token_ids":[65])");
  world.generator.text(world.generator.last(), "x");
  world.generator.finish(world.generator.last(), FinishReason::kStop, std::nullopt, 65);
  world.pump();
  EXPECT_EQ(choice_of(writer->body()).at("stop_reason").as_int64(), 65);
}

TEST(Generation, AnAnswerWithoutTokensIsStillComplete) {
  ApiWorld world;
  const auto whole = world.chat("");
  world.generator.finish(world.generator.last(), FinishReason::kStop);
  const auto stream = world.chat(std::string(kStream));
  world.generator.finish(world.generator.last(), FinishReason::kStop);
  world.pump();
  EXPECT_EQ(text_of(choice_of(whole->body()).at("message").at("content")), "");
  const Folded folded = fold(*stream);
  EXPECT_EQ(folded.role, "assistant");
  EXPECT_EQ(folded.finish_reason, "stop");
  EXPECT_TRUE(folded.done);
}

TEST(Logprobs, ChatRecordsJoinToTheContent) {
  for (const bool stream : {false, true}) {
    ApiWorld world;
    const auto writer = world.chat(R"(,"logprobs":true,"top_logprobs":2,"stop":["zz"])" +
                                   (stream ? std::string(kStream) : ""));
    auto& running = world.generator.last();
    EXPECT_EQ(running.request.sampling.top_logprobs, 2);
    for (const wire::TokenId id :
         {int('a'), int(ByteTokenizer::kHalfSmile), 0x98, 0x80, int('z'), int('z')}) {
      world.generator.token(running, id);
      world.pump();
    }
    world.generator.finish(running, FinishReason::kCancelled);
    world.pump();
    const std::string expected = "a\xF0\x9F\x98\x80";
    if (stream) {
      const Folded folded = fold(*writer);
      EXPECT_EQ(folded.text, expected);
      EXPECT_EQ(folded.logprob_bytes, expected);
      continue;
    }
    const boost::json::object body = writer->body();
    const boost::json::array& content = choice_of(body).at("logprobs").at("content").as_array();
    ASSERT_EQ(content.size(), 4u);
    EXPECT_EQ(text_of(content[0].at("token")), "a");
    EXPECT_DOUBLE_EQ(content[0].at("logprob").as_double(), -0.5);
    EXPECT_EQ(content[0].at("top_logprobs").as_array().size(), 2u);
    EXPECT_EQ(content[1].at("bytes").as_array().size(), 2u);
  }
}

TEST(Logprobs, CompletionsUseTheLegacyObject) {
  ApiWorld world;
  const auto writer = world.complete(R"(,"logprobs":2)");
  auto& running = world.generator.last();
  world.generator.token(running, 'x');
  world.generator.token(running, ByteTokenizer::kHalfSmile);
  world.generator.token(running, 0x98);
  world.generator.token(running, 0x80);
  world.generator.token(running, 'y');
  world.generator.finish(running, FinishReason::kLength);
  world.pump();
  const boost::json::object body = writer->body();
  const boost::json::object& logprobs = choice_of(body).at("logprobs").as_object();
  EXPECT_EQ(text_of(logprobs.at("tokens").as_array()[0]), "x");
  EXPECT_EQ(text_of(logprobs.at("tokens").as_array()[1]), "bytes:\\xf0\\x9f");
  EXPECT_EQ(logprobs.at("token_logprobs").as_array().size(), 5u);
  EXPECT_EQ(logprobs.at("top_logprobs").as_array()[0].as_object().size(), 3u);
  const boost::json::array& offsets = logprobs.at("text_offset").as_array();
  EXPECT_EQ(offsets[0].as_int64(), 0);
  EXPECT_EQ(offsets[1].as_int64(), 1);
  EXPECT_EQ(offsets[4].as_int64(), 2);
}

// C162
TEST(Logprobs, AreFiniteNumbersWhateverTheModelSays) {
  ApiWorld world;
  const auto writer = world.complete(R"(,"logprobs":1)");
  auto& running = world.generator.last();
  wire::TokenEvent event;
  event.token = 'x';
  event.logprob = -std::numeric_limits<float>::infinity();
  event.top_logprobs = {{'y', std::numeric_limits<float>::quiet_NaN()}};
  ++running.tokens;
  running.sink->on_token(std::move(event));
  world.generator.finish(running, FinishReason::kLength);
  world.pump();
  const boost::json::object body = writer->body();
  const boost::json::object& logprobs = choice_of(body).at("logprobs").as_object();
  EXPECT_EQ(logprobs.at("token_logprobs").as_array()[0].as_double(), -9999.0);
  EXPECT_EQ(logprobs.at("top_logprobs").as_array()[0].at("y").as_double(), -9999.0);
}

// C192
TEST(Failure, BeforeTheFirstTokenIsAStatusOfItsOwn) {
  struct Row {
    FinishReason reason;
    std::optional<base::Error> error;
    int status;
    std::string code;
  };
  const Row rows[] = {
      {FinishReason::kError, base::Error{base::ErrorCode::kInternal, "non-finite logits", {}}, 500,
       "generation_failed"},
      {FinishReason::kError, base::Error{base::ErrorCode::kResourceExhausted, "no pages", {}}, 503,
       "capacity_exceeded"},
      {FinishReason::kError, std::nullopt, 500, "internal_error"},
      {FinishReason::kDeadline, std::nullopt, 408, "deadline_exceeded"},
      {FinishReason::kCancelled, std::nullopt, 503, "draining"},
  };
  for (const Row& row : rows) {
    for (const bool stream : {false, true}) {
      ApiWorld world;
      const auto writer = world.chat(stream ? std::string(kStream) : "");
      world.generator.finish(world.generator.last(), row.reason, row.error);
      world.pump();
      ASSERT_TRUE(writer->sent.has_value());
      EXPECT_EQ(writer->answers, 1);
      EXPECT_EQ(writer->sent->status, row.status);
      EXPECT_EQ(text_of(writer->body().at("error").at("code")), row.code);
    }
  }
}

// C192
TEST(Failure, AfterTheFirstTokenIsAnErrorEventWithoutDone) {
  for (const int tokens : {1, 10}) {
    ApiWorld world;
    const auto writer = world.chat(std::string(kStreamUsage));
    for (int i = 0; i < tokens; ++i) world.generator.token(world.generator.last(), 'a');
    world.pump();
    world.generator.finish(world.generator.last(), FinishReason::kError,
                           base::Error{base::ErrorCode::kInternal, "non-finite logits", {}});
    world.pump();
    const Folded folded = fold(*writer);
    EXPECT_TRUE(folded.error);
    EXPECT_FALSE(folded.done);
    EXPECT_EQ(folded.finish_reason, "");
    EXPECT_TRUE(writer->finished);
    EXPECT_EQ(folded.text, std::string(static_cast<size_t>(tokens), 'a'));
  }
}

TEST(Failure, AWholeAnswerThatFailsHalfwayIsNoPartialAnswer) {
  ApiWorld world;
  const auto writer = world.chat("");
  world.generator.text(world.generator.last(), "half an ans");
  world.generator.finish(world.generator.last(), FinishReason::kError,
                         base::Error{base::ErrorCode::kInternal, "non-finite logits", {}});
  world.pump();
  EXPECT_EQ(writer->sent->status, 500);
  EXPECT_EQ(writer->sent->body.find("half"), std::string::npos);
}

TEST(Disconnect, CancelsTheGenerationInBothModes) {
  for (const bool stream : {false, true}) {
    ApiWorld world;
    const auto writer = world.chat(stream ? std::string(kStream) : "");
    auto& running = world.generator.last();
    world.generator.text(running, "a");
    world.pump();
    writer->abort();
    EXPECT_TRUE(running.cancelled);
    world.generator.text(running, "b");
    world.generator.finish(running, FinishReason::kCancelled);
    world.pump();
    EXPECT_FALSE(writer->finished);
    EXPECT_EQ(writer->answers, stream ? 1 : 0);
    const std::string metrics = world.registry.expose();
    EXPECT_NE(
        metrics.find("request_success_total{model_name=\"tiny\",finished_reason=\"abort\"} 1"),
        std::string::npos);
    EXPECT_NE(metrics.find("endpoint=\"/v1/chat/completions\",status=\"499\"} 1"),
              std::string::npos);
  }
}

TEST(Disconnect, AWriteThatFailsCancelsToo) {
  ApiWorld world;
  const auto writer = world.chat(std::string(kStream));
  writer->open = false;  // cut off for a full backlog
  world.generator.text(world.generator.last(), "a");
  world.pump();
  EXPECT_TRUE(world.generator.last().cancelled);
}

TEST(Disconnect, AClientThatIsGoneBeforeAdmissionCostsNothing) {
  ApiWorld world;
  auto writer = std::make_shared<MemoryWriter>();
  writer->open = false;
  http::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.headers = {{"Content-Type", "application/json"}};
  request.body = R"({"prompt":"hi"})";
  world.api->handler()(std::move(request), writer);
  EXPECT_TRUE(world.generator.submitted.empty());
}

// C193
TEST(Backlog, EventsThatTheReaderCannotTakeFailThatRequestOnly) {
  ApiOptions options;
  options.backlog_events_max = 4;
  ApiWorld world(options);
  const auto writer = world.chat("");
  auto& running = world.generator.last();
  world.generator.text(running, "abcdefgh");
  EXPECT_EQ(world.tasks.size(), 1u) << "one wake-up for many events";
  world.pump();
  EXPECT_TRUE(running.cancelled);
  EXPECT_EQ(writer->sent->status, 503);
  world.generator.finish(running, FinishReason::kCancelled);
  const auto next = world.chat("");
  world.generator.text(world.generator.last(), "ok");
  world.generator.finish(world.generator.last(), FinishReason::kStop);
  world.pump();
  EXPECT_EQ(next->sent->status, 200);
}

// C194
TEST(Requests, WithTheSameClientIdGetTheirOwnAnswers) {
  ApiWorld world;
  std::vector<std::shared_ptr<MemoryWriter>> writers(5);
  for (auto& writer : writers) {
    writer = world.post("/v1/completions", R"({"prompt":"hi"})", {{"x-request-id", "same"}});
  }
  for (size_t i = 5; i-- > 0;) {
    auto& running = world.generator.submitted[i];
    world.generator.token(running, static_cast<wire::TokenId>('0' + i));
    world.generator.finish(running, FinishReason::kStop);
  }
  world.pump();
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(text_of(choice_of(writers[i]->body()).at("text")), std::to_string(i));
    EXPECT_EQ(writers[i]->header("x-request-id"), "same");
  }
}

// C164
TEST(Seeds, AreDrawnAfreshWhereTheClientGaveNone) {
  ApiWorld world;
  world.chat("");
  world.chat("");
  world.chat(R"(,"seed":null)");
  EXPECT_NE(world.generator.submitted[0].request.sampling.seed,
            world.generator.submitted[1].request.sampling.seed);
  EXPECT_NE(world.generator.submitted[1].request.sampling.seed,
            world.generator.submitted[2].request.sampling.seed);
  world.chat(R"(,"seed":0)");
  EXPECT_EQ(world.generator.last().request.sampling.seed, 0u);
}

TEST(Deadline, IsSetFromTheOption) {
  ApiOptions options;
  options.request_timeout = std::chrono::seconds(60);
  ApiWorld world(options);
  world.clock.advance(std::chrono::seconds(5));
  world.chat("");
  EXPECT_EQ(world.generator.last().request.deadline, std::chrono::seconds(65));
}

TEST(Tools, ReachTheTemplateUnlessTheChoiceIsNone) {
  ApiWorld world;
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  world.chat(tools);
  const size_t with = world.generator.last().request.prompt.size();
  world.chat(tools + R"(,"tool_choice":"none")");
  const size_t without = world.generator.last().request.prompt.size();
  world.chat("");
  EXPECT_EQ(without, world.generator.last().request.prompt.size());
  EXPECT_GT(with, without);
}

// All sums agree, whatever the ends were.
// C196
TEST(Metrics, TokenCountersAgreeWithTheUsageThatWasTold) {
  ApiWorld world;
  int64_t told = 0;
  for (const auto reason : {FinishReason::kStop, FinishReason::kLength, FinishReason::kError}) {
    const auto writer = world.chat("");
    world.clock.advance(std::chrono::milliseconds(20));
    world.generator.text(world.generator.last(), "abc");
    world.generator.finish(world.generator.last(), reason);
    world.pump();
    if (writer->sent->status == 200) {
      told += writer->body().at("usage").at("completion_tokens").as_int64();
    }
  }
  const std::string text = world.registry.expose();
  const auto has = [&](const std::string& line) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  };
  EXPECT_EQ(told, 6);
  has("vllm:generation_tokens_total{model_name=\"tiny\"} 9");
  has("vllm:request_success_total{model_name=\"tiny\",finished_reason=\"stop\"} 1");
  has("vllm:request_success_total{model_name=\"tiny\",finished_reason=\"length\"} 1");
  has("vllm:request_success_total{model_name=\"tiny\",finished_reason=\"error\"} 1");
  has("vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 3");
  has("vllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 3");
  has("vllm:inter_token_latency_seconds_count{model_name=\"tiny\"} 6");
  has("vllm:request_generation_tokens_sum{model_name=\"tiny\"} 9");
}

TEST(Privacy, NeitherPromptsNorAnswersAreLogged) {
  ApiWorld world;
  world.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"my secret"}]})");
  world.generator.text(world.generator.last(), "its answer");
  world.generator.finish(world.generator.last(), FinishReason::kStop);
  world.pump();
  EXPECT_EQ(world.log.str().find("secret"), std::string::npos);
  EXPECT_EQ(world.log.str().find("answer"), std::string::npos);
  EXPECT_NE(world.log.str().find("completion_tokens=10"), std::string::npos);
}

}  // namespace
}  // namespace bulkhead::api
