// What the client asked, the model's defaults and the server's limits, brought together into the
// requests the generator gets: one for each choice of each prompt.
//
// Threads: pure functions. Invariants: every value of the result is in the range that
// wire/generate.h states; prompt and answer together fit the context; the arithmetic of lengths is
// here alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/answer/output_pipeline.h"
#include "api/api.h"
#include "api/errors.h"
#include "api/request/request_fields.h"
#include "wire/generate.h"

namespace bulkhead::api {

inline constexpr int64_t kCompletionTokensDefault = 16;

// One prompt and what is its own.
struct PromptPlan {
  std::vector<wire::TokenId> ids;
  size_t hidden = 0;       // of `ids`: put before the client's text, and not echoed
  int32_t max_tokens = 0;  // of each of its choices
};

struct GenerationPlan {
  std::vector<PromptPlan> prompts;
  // What all choices have in common: without prompt, max_tokens, id, leader, cache and deadline.
  // Its seed is the request's; choice_seed() gives each choice its own.
  wire::GenerateRequest request;
  int32_t n = 1;  // choices of each prompt
  // What the answers must look like, to be compiled into request.constraint before they begin.
  std::optional<wire::ConstraintSpec> constraint;
  OutputOptions output;
  bool echo = false;
  int32_t prompt_logprobs = -1;  // told as such; -1: not
  bool token_id_names = false;
  bool service_tier = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
};

// The seed of choice `number` of a prompt, from 0: the first has the request's own.
uint64_t choice_seed(uint64_t seed, int32_t number);

// Longest prompt and answer of one request: the model's context or the cache, if that is smaller.
int64_t context_limit(const wire::GenerateLimits& limits);

// `prompts` come with their ids. `seed` is used where the client gave none.
Failure plan_generation(const RequestFields& fields, Endpoint endpoint,
                        std::vector<PromptPlan> prompts, const GenerationDefaults& defaults,
                        const wire::GenerateLimits& limits, uint64_t seed, GenerationPlan& out);

}  // namespace bulkhead::api
