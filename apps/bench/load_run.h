// Sends the requests of a workload, in a closed or an open loop, and records each answer.
//
// Threads: one, which drives every stream. Invariants: every request has exactly one record, in the
// order of the requests; latencies count from a request's arrival, which in an open loop includes
// the time it waited for a free place (so a slow server cannot hide behind the limit).
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "apps/bench/stream_recorder.h"
#include "apps/bench/workload.h"
#include "base/result.h"
#include "http/async_client.h"

namespace bulkhead::apps {

struct LoadPlan {
  std::vector<http::Header> headers;
  std::chrono::milliseconds timeout{600'000};
  uint64_t concurrency = 0;        // 0: no limit
  std::vector<double> arrivals_s;  // one for each request; empty: a closed loop
};

struct LoadProgress {
  uint64_t done = 0, failed = 0, open = 0, total = 0;
  int64_t output_tokens = 0;
  double elapsed_s = 0.0;
};

struct LoadResult {
  std::vector<RequestRecord> records;
  double duration_s = 0.0;    // first arrival to last end
  uint64_t open_max = 0;      // most requests that were open at once
  double client_cpu_s = 0.0;  // of this process, meanwhile
};

// `on_progress` is called now and then, and at the end; may be empty.
LoadResult run_load(http::AsyncClient& client, const std::vector<BenchRequest>& requests,
                    const LoadPlan& plan,
                    const std::function<void(const LoadProgress&)>& on_progress);

}  // namespace bulkhead::apps
