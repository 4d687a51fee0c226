// Bodies of /v1/chat/completions and /v1/completions through the whole front door: whatever a
// client sends is either refused with a 4xx JSON error or becomes requests with every value in
// range, and they get one complete answer.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/test_doubles.h"
#include "base/check.h"

namespace {

using bulkhead::api::testing::ApiWorld;
using bulkhead::api::testing::ByteTokenizer;
using bulkhead::api::testing::MemoryWriter;
using bulkhead::api::testing::ScriptedGenerator;
using bulkhead::wire::FinishReason;
using bulkhead::wire::GenerateRequest;
using bulkhead::wire::SamplingParams;
using bulkhead::wire::TokenId;

bool in_vocabulary(TokenId id) { return id >= 0 && id < ByteTokenizer::kSize; }

void check_sampling(const SamplingParams& sampling) {
  const auto between = [](float value, float low, float high) {
    return std::isfinite(value) && value >= low && value <= high;
  };
  BH_CHECK(between(sampling.temperature, 0, 2), "temperature");
  BH_CHECK(between(sampling.top_p, 0, 1) && sampling.top_p > 0, "top_p");
  BH_CHECK(sampling.top_k >= 0, "top_k");
  BH_CHECK(between(sampling.min_p, 0, 1), "min_p");
  BH_CHECK(between(sampling.frequency_penalty, -2, 2), "frequency_penalty");
  BH_CHECK(between(sampling.presence_penalty, -2, 2), "presence_penalty");
  BH_CHECK(between(sampling.repetition_penalty, 0, 2) && sampling.repetition_penalty > 0,
           "repetition_penalty");
  BH_CHECK(sampling.top_logprobs >= -1 && sampling.top_logprobs <= 20, "top_logprobs");
  for (const auto& [id, bias] : sampling.logit_bias) {
    BH_CHECK(in_vocabulary(id) && between(bias, -100, 100), "logit_bias");
  }
}

void check_request(const GenerateRequest& request, const bulkhead::wire::GenerateLimits& limits) {
  check_sampling(request.sampling);
  BH_CHECK(!request.prompt.empty(), "a prompt has tokens");
  for (const TokenId id : request.prompt) BH_CHECK(in_vocabulary(id), "prompt");
  for (const TokenId id : request.stop_ids) BH_CHECK(in_vocabulary(id), "stop_ids");
  BH_CHECK(request.max_tokens >= (request.prompt_logprobs >= 0 ? 0 : 1), "max_tokens");
  BH_CHECK(request.prompt_logprobs >= -1 && request.prompt_logprobs <= 20, "prompt_logprobs");
  BH_CHECK(request.min_tokens >= 0 && request.min_tokens <= request.max_tokens, "min_tokens");
  BH_CHECK(request.prompt.size() + static_cast<size_t>(request.max_tokens) <=
               static_cast<size_t>(limits.context_tokens),
           "prompt and answer fit the context");
}

// The generator's part: the prompt's scores where they are wanted, some tokens, the end.
void play(ApiWorld& world, ScriptedGenerator::Running& running) {
  const GenerateRequest& request = running.request;
  if (request.prompt_logprobs >= 0 && request.prompt.size() > 1) {
    bulkhead::wire::PromptEvent event;
    event.position = 1;
    for (size_t i = 1; i < request.prompt.size(); ++i) {
      event.tokens.emplace_back().token = request.prompt[i];
    }
    running.sink->on_prompt(std::move(event));
  }
  if (request.max_tokens > 0) world.generator.text(running, "a word, \n\n and </s>");
  world.generator.finish(running,
                         running.cancelled ? FinishReason::kCancelled : FinishReason::kLength);
}

void check_refusal(const MemoryWriter& writer) {
  BH_CHECK(writer.answers == 1 && writer.sent.has_value(), "one answer");
  BH_CHECK(writer.sent->status >= 400 && writer.sent->status < 500, "a client's fault is a 4xx");
  BH_CHECK(writer.body().contains("error"), "an error body is JSON");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ApiWorld world;
  std::string body(reinterpret_cast<const char*>(data), size);
  const bool plain = body.find("\"prompt\"") != std::string::npos;
  const auto writer =
      world.post(plain ? "/v1/completions" : "/v1/chat/completions", std::move(body));
  if (world.generator.submitted.empty()) {
    check_refusal(*writer);
    return 0;
  }
  const auto& limits = world.generator.limits();
  BH_CHECK(world.generator.submitted.size() <= limits.running_max + limits.queued_max, "choices");
  for (auto& running : world.generator.submitted) {
    check_request(running.request, limits);
    play(world, running);
  }
  world.pump();
  BH_CHECK(writer->answers == 1, "one answer");
  BH_CHECK(writer->sent ? writer->sent->status == 200 && writer->body().contains("choices")
                        : writer->finished && writer->streamed.ends_with("data: [DONE]\n\n"),
           "the answer is complete");
  world.generator.submitted.clear();
  world.log.str({});
  return 0;
}
