#include "apps/bench/report.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace bulkhead::apps {
namespace {

base::Error bad_goodput(std::string_view part) {
  return base::invalid_argument(
      "--goodput",
      "'" + std::string(part.substr(0, 64)) +
          "' is not a bound: write ttft:MS, tpot:MS, itl:MS or e2e:MS, each at most once, "
          "separated by commas");
}

base::Status add_bound(std::string_view part, GoodputBounds& bounds) {
  const size_t colon = part.find(':');
  if (colon == std::string_view::npos) return bad_goodput(part);
  const std::string_view name = part.substr(0, colon);
  const std::string_view digits = part.substr(colon + 1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !(value > 0.0)) {
    return bad_goodput(part);
  }
  std::optional<double>* bound = name == "ttft"                    ? &bounds.ttft_ms
                                 : name == "tpot"                  ? &bounds.tpot_ms
                                 : name == "itl"                   ? &bounds.itl_ms
                                 : name == "e2e" || name == "e2el" ? &bounds.e2e_ms
                                                                   : nullptr;
  if (bound == nullptr || bound->has_value()) return bad_goodput(part);
  *bound = value;
  return {};
}

}  // namespace

base::Result<GoodputBounds> parse_goodput(std::string_view text) {
  GoodputBounds bounds;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    BH_TRY(add_bound(text.substr(0, comma), bounds));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return bad_goodput(text);
  }
  return bounds;
}

bool is_good(const RequestRecord& record, const GoodputBounds& bounds) {
  const auto within = [](const std::optional<double>& bound, double seconds) {
    return !bound || seconds * 1e3 <= *bound;
  };
  return record.failure.empty() && within(bounds.ttft_ms, record.ttft_s) &&
         within(bounds.tpot_ms, record.tpot_s) && within(bounds.e2e_ms, record.e2e_s) &&
         std::all_of(record.itl_s.begin(), record.itl_s.end(),
                     [&](double gap) { return within(bounds.itl_ms, gap); });
}

uint64_t BenchReport::failed() const {
  uint64_t total = 0;
  for (const auto& [kind, count] : failures) total += count;
  return total;
}

double BenchReport::cached_share() const {
  return static_cast<double>(cached_tokens) /
         static_cast<double>(std::max<int64_t>(1, input_tokens));
}

double BenchReport::simulated_share() const {
  return static_cast<double>(simulated_cached_tokens) /
         static_cast<double>(std::max<int64_t>(1, input_tokens));
}

void add_replay(ReplayFacts facts, const LoadResult& result, BenchReport& report) {
  report.simulated_cached_tokens = 0;
  for (size_t i = 0; i < std::min(facts.simulated.size(), result.records.size()); ++i) {
    if (result.records[i].failure.empty()) report.simulated_cached_tokens += facts.simulated[i];
  }
  report.replay = std::move(facts);
}

BenchReport make_report(const BenchServeOptions& options, std::string model,
                        const GoodputBounds& bounds, const LoadResult& result) {
  BenchReport report;
  report.model = std::move(model);
  report.bounds = bounds;
  std::vector<double> ttft, tpot, itl, e2e;
  for (const RequestRecord& record : result.records) {
    if (!record.failure.empty()) {
      ++report.failures[record.failure];
      report.first_words.try_emplace(record.failure, record.failure_text);
      continue;
    }
    ++report.completed;
    report.input_tokens += record.input_tokens;
    report.output_tokens += record.output_tokens;
    report.cached_tokens += record.cached_tokens;
    report.without_usage += record.usage ? 0 : 1;
    if (!options.stop_at_eos && record.usage && record.output_tokens != record.asked_tokens) {
      ++report.short_answers;
    }
    report.good += is_good(record, bounds) ? 1 : 0;
    ttft.push_back(record.ttft_s * 1e3);
    e2e.push_back(record.e2e_s * 1e3);
    if (record.output_tokens > 1) tpot.push_back(record.tpot_s * 1e3);
    for (const double gap : record.itl_s) itl.push_back(gap * 1e3);
  }
  report.ttft_ms = summarize(std::move(ttft));
  report.tpot_ms = summarize(std::move(tpot));
  report.itl_ms = summarize(std::move(itl));
  report.e2e_ms = summarize(std::move(e2e));
  report.duration_s = result.duration_s;
  report.open_max = result.open_max;
  const double seconds = std::max(1e-9, result.duration_s);
  report.requests_per_s = static_cast<double>(report.completed) / seconds;
  report.input_per_s = static_cast<double>(report.input_tokens) / seconds;
  report.output_per_s = static_cast<double>(report.output_tokens) / seconds;
  report.good_per_s = static_cast<double>(report.good) / seconds;
  report.client_cpu_share = result.client_cpu_s / seconds;
  return report;
}

}  // namespace bulkhead::apps
