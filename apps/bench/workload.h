// The requests of a run, drawn from a seed or read from a file before the clock starts; and what
// bench replay makes its own with.
//
// Threads: pure functions. Invariants: the same options give the same requests; each body is
// complete JSON for its endpoint, always streamed and with usage asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/options.h"
#include "base/result.h"

namespace bulkhead::apps {

struct BenchRequest {
  std::string target;  // "/v1/completions"
  std::string body;
  int64_t input_tokens = 0;   // as sent; 0 where only the server can count them
  int64_t output_tokens = 0;  // the most it may generate
};

using PromptTokens = std::vector<int32_t>;

// Ids that prompts are drawn from: [low, low + span). The first ids are control tokens in some
// vocabularies and the last ones in others, so both ends are left out.
struct TokenRange {
  int32_t low = 0;
  uint32_t span = 1;
};
TokenRange drawable_tokens(int64_t vocabulary);

// A completion of so many tokens; the rest of its fields as `options` say.
BenchRequest completion_of(const BenchServeOptions& options, const std::string& model,
                           const PromptTokens& prompt, int64_t output_tokens);

struct Workload {
  std::vector<BenchRequest> warmup;
  std::vector<BenchRequest> requests;
};

// `model` and `vocabulary` are those of the server. Errors: kInvalidArgument for options that
// contradict each other, kNotFound and kCorruptData for the file (with the line).
base::Result<Workload> make_workload(const BenchServeOptions& options, const std::string& model,
                                     int64_t vocabulary);

}  // namespace bulkhead::apps
