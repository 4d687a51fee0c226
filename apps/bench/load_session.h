// What `bench serve` and `bench replay` do alike: ask a server what it serves, warm it up, load it,
// and say how it ended.
//
// Threads: one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench/load_run.h"
#include "apps/bench/options.h"
#include "apps/bench/replay/replay_facts.h"
#include "base/result.h"
#include "http/async_client.h"
#include "http/client.h"

namespace bulkhead::apps {

struct Target {
  std::string model;
  std::string owner;            // "bulkhead", "vllm"; empty where the server does not say
  int64_t vocabulary = 10'000;  // what is assumed where it does not say
  int64_t context_tokens = 0;   // of prompt and answer; 0: it does not say
};

// What a server tells about itself beyond what all do; each field may be missing.
struct ServerFacts {
  std::string isa;
  std::optional<CacheShape> cache;  // in which prompts are found again
};

std::vector<http::Header> load_headers(const BenchServeOptions& options);

// The model to be asked, by /v1/models. Errors: kUnavailable, kCorruptData.
base::Result<Target> ask_models(http::Client& client, const BenchServeOptions& options);
// By /get_server_info, as Bulkhead and SGLang have it; empty where there is none.
ServerFacts ask_server(http::Client& client, const BenchServeOptions& options);
// The server forgets every cached prompt. Errors: kUnavailable where it will not.
base::Status flush_cache(http::Client& client, const BenchServeOptions& options);

// Headers, limits and, with a rate, arrivals.
LoadPlan load_plan(const BenchServeOptions& options);
// One after the other, so that nothing of the first request's cost is measured.
base::Status warm_up(http::AsyncClient& client, const std::vector<BenchRequest>& requests,
                     const BenchServeOptions& options);
// With a progress line on standard error where that is a terminal.
LoadResult watch_load(http::AsyncClient& client, const std::vector<BenchRequest>& requests,
                      const LoadPlan& plan);

// Errors: kIo, with `flag` as its field.
base::Status write_text_file(const std::string& path, const std::string& text,
                             const std::string& flag);
// Of a run whose value is whether every request succeeded; an error is told on standard error.
int exit_code_of(const base::Result<bool>& all_succeeded, bool tolerate_errors);

}  // namespace bulkhead::apps
