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
#include "apps/bench/statistics.h"
#include "base/result.h"

namespace bulkhead::apps {

// Upper bounds that make an answer good, in milliseconds.
struct GoodputBounds {
  std::optional<double> ttft_ms, tpot_ms, e2e_ms;
  bool any() const { return ttft_ms || tpot_ms || e2e_ms; }
};
// "ttft:200,tpot:50,e2e:5000", any of the three. Errors: kInvalidArgument.
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

  uint64_t failed() const;
};

BenchReport make_report(const BenchServeOptions& options, std::string model,
                        const GoodputBounds& bounds, const LoadResult& result);
std::string report_text(const BenchServeOptions& options, const BenchReport& report);
// With the options and one record for each request.
std::string report_json(const BenchServeOptions& options, const BenchReport& report,
                        const LoadResult& result);

}  // namespace bulkhead::apps
