// What a run adds up to: latencies, throughput, goodput and failures, as a table and as JSON.
//
// Threads: plain values. Invariant: latencies, token counts and goodput are of complete answers
// only; a failed request is counted as failed and nowhere else.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/load_run.h"
#include "apps/bench/options.h"
#include "apps/bench/replay/replay_facts.h"
#include "apps/bench/statistics.h"
#include "base/result.h"

namespace bulkhead::apps {

// Upper bounds that make an answer good, in milliseconds. `itl_ms` is of an answer's longest gap.
struct GoodputBounds {
  std::optional<double> ttft_ms, tpot_ms, itl_ms, e2e_ms;
  bool any() const { return ttft_ms || tpot_ms || itl_ms || e2e_ms; }
};
// "ttft:200,tpot:50,itl:100,e2e:5000", any of the four; e2el is another name of e2e. Errors:
// kInvalidArgument.
base::Result<GoodputBounds> parse_goodput(std::string_view text);
bool is_good(const RequestRecord& record, const GoodputBounds& bounds);

struct BenchReport {
  std::string model;
  uint64_t completed = 0;
  std::map<std::string, uint64_t> failures;        // by kind
  std::map<std::string, std::string> first_words;  // of each kind: its first message
  uint64_t short_answers = 0;  // complete, but not of the length that was asked for
  uint64_t without_usage = 0;  // counted by chunks
  int64_t input_tokens = 0, output_tokens = 0, cached_tokens = 0;
  double duration_s = 0.0;
  double requests_per_s = 0.0, input_per_s = 0.0, output_per_s = 0.0;
  uint64_t open_max = 0;
  double client_cpu_share = 0.0;  // of one core
  Summary ttft_ms, tpot_ms, itl_ms, e2e_ms;
  GoodputBounds bounds;
  uint64_t good = 0;
  double good_per_s = 0.0;
  std::optional<ReplayFacts> replay;    // of bench replay
  int64_t simulated_cached_tokens = 0;  // of the complete answers, as cached_tokens is

  uint64_t failed() const;
  double cached_share() const;     // of the prompt tokens of complete answers
  double simulated_share() const;  // the same of the simulation
  // Nothing ran beside anything else, so that the simulation is of this very run.
  bool one_at_a_time() const { return open_max <= 1; }
};

BenchReport make_report(const BenchServeOptions& options, std::string model,
                        const GoodputBounds& bounds, const LoadResult& result);
// Adds what a replay is about; `result` is what the report was made of.
void add_replay(ReplayFacts facts, const LoadResult& result, BenchReport& report);
std::string report_text(const BenchServeOptions& options, const BenchReport& report);
// With the options and one record for each request.
std::string report_json(const BenchServeOptions& options, const BenchReport& report,
                        const LoadResult& result);

}  // namespace bulkhead::apps
