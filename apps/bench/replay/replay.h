// The requests that a trace becomes for one server, when each is due, and what each is to find in
// the server's cache.
//
// Threads: one. Invariant: the same trace, options, model and vocabulary give the same requests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/bench/load_session.h"
#include "apps/bench/options.h"
#include "apps/bench/replay/replay_facts.h"
#include "apps/bench/replay/trace.h"
#include "apps/bench/workload.h"
#include "base/result.h"

namespace bulkhead::apps {

// All prompts are made before the first is sent.
inline constexpr int64_t kReplayTokensMax = int64_t{1} << 26;

struct Replay {
  Workload workload;
  std::vector<double> arrivals_s;  // empty: a closed loop
  ReplayFacts facts;
};

// The cache to be simulated: the one that the options give, else the server's.
std::optional<CacheShape> cache_shape(const BenchReplayOptions& options, const ServerFacts& server);

// Errors: kInvalidArgument for a row that the server's context cannot hold, with the length scale
// that would do; for more prompts than are made; kResourceExhausted.
base::Result<Replay> make_replay(const BenchReplayOptions& options, const Trace& trace,
                                 const Target& target, const std::optional<CacheShape>& cache);

}  // namespace bulkhead::apps
