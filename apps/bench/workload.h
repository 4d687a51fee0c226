// The requests of a run, drawn from a seed or read from a file before the clock starts.
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

struct Workload {
  std::vector<BenchRequest> warmup;
  std::vector<BenchRequest> requests;
};

// `model` and `vocabulary` are those of the server. Errors: kInvalidArgument for options that
// contradict each other, kNotFound and kCorruptData for the file (with the line).
base::Result<Workload> make_workload(const BenchServeOptions& options, const std::string& model,
                                     int64_t vocabulary);

}  // namespace bulkhead::apps
