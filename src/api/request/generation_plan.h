// What the client asked, the model's defaults and the server's limits, brought together into the
// one request the generator gets.
//
// Threads: pure functions. Invariants: every value of the result is in the range that
// wire/generate.h states; prompt and answer together fit the context; the arithmetic of lengths is
// here alone.
#pragma once

#include <cstdint>
#include <vector>

#include "api/answer/output_pipeline.h"
#include "api/api.h"
#include "api/errors.h"
#include "api/request/request_fields.h"
#include "wire/generate.h"

namespace bulkhead::api {

inline constexpr int64_t kCompletionTokensDefault = 16;

struct GenerationPlan {
  wire::GenerateRequest request;  // without id and deadline
  OutputOptions output;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
};

// Longest prompt and answer of one request: the model's context or the cache, if that is smaller.
int64_t context_limit(const wire::GenerateLimits& limits);

// `seed` is used where the client gave none.
Failure plan_generation(const RequestFields& fields, Endpoint endpoint,
                        std::vector<wire::TokenId> prompt, const GenerationDefaults& defaults,
                        const wire::GenerateLimits& limits, uint64_t seed, GenerationPlan& out);

}  // namespace bulkhead::api
