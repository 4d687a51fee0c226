// The two forms of a report. The table keeps the line names of other serving benchmarks, so that
// scripts written for them read it.
#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/report.h"
#include "base/json_writer.h"

namespace bulkhead::apps {
namespace {

constexpr size_t kWidth = 60;

void headline(std::string& out, std::string_view title, char fill) {
  const size_t around = kWidth - std::min(kWidth, title.size());
  out += std::string(around / 2, fill);
  out += title;
  out += std::string(around - around / 2, fill) + '\n';
}
void line(std::string& out, std::string_view name, const std::string& value) {
  out += fmt::format("{:<44}{}\n", name, value);
}
void line(std::string& out, std::string_view name, uint64_t value) {
  line(out, name, fmt::format("{}", value));
}
void line(std::string& out, std::string_view name, double value) {
  line(out, name, fmt::format("{:.2f}", value));
}

void latency(std::string& out, std::string_view title, std::string_view name, const Summary& ms) {
  headline(out, title, '-');
  const auto row = [&](std::string_view which, double value) {
    line(out, fmt::format("{} {} (ms):", which, name), value);
  };
  row("Mean", ms.mean);
  row("Median", ms.p50);
  row("P90", ms.p90);
  row("P95", ms.p95);
  row("P99", ms.p99);
  row("Max", ms.max);
}

std::string bounds_text(const GoodputBounds& bounds) {
  std::string text;
  const auto add = [&text](std::string_view name, const std::optional<double>& bound) {
    if (bound) text += fmt::format("{}{} <= {:g} ms", text.empty() ? "" : ", ", name, *bound);
  };
  add("ttft", bounds.ttft_ms);
  add("tpot", bounds.tpot_ms);
  add("itl", bounds.itl_ms);
  add("e2e", bounds.e2e_ms);
  return text;
}

// Which trace, and what was found in the cache beside what was to be found.
void replay_lines(std::string& out, const BenchReport& report, const ReplayFacts& facts) {
  out += fmt::format("trace: {} ({}) from row {} on; lengths / {:g}, {}\n", facts.trace, facts.kind,
                     facts.start, facts.length_scale,
                     facts.closed_loop ? "one after the other wherever a place is free"
                                       : fmt::format("times / {:g}", facts.time_scale));
  out += fmt::format("prefix hits: {:.2f} % of the prompt tokens ({} of {})\n",
                     100.0 * report.cached_share(), report.cached_tokens, report.input_tokens);
  if (!facts.cache) {
    out += fmt::format("no simulated figure: {}\n", facts.not_simulated);
    return;
  }
  out +=
      fmt::format("simulated:   {:.2f} % ({}), {} pages of {} tokens, longest unused first: {}\n",
                  100.0 * report.simulated_share(), report.simulated_cached_tokens,
                  facts.cache->pages, facts.cache->page_tokens,
                  report.cached_tokens == report.simulated_cached_tokens ? "equal" : "not equal");
  if (!report.one_at_a_time()) {
    out += "note: requests ran beside each other; simulated is one after the other\n";
  }
  if (!facts.flushed) {
    out += "note: simulated from an empty cache; --flush-cache makes the server's one empty\n";
  }
}

void notes(std::string& out, const BenchReport& report) {
  for (const auto& [kind, count] : report.failures) {
    out += fmt::format("failed: {} x {}: {}\n", count, kind, report.first_words.at(kind));
  }
  if (report.short_answers > 0) {
    out += fmt::format("note: {} answers have another length than was asked for\n",
                       report.short_answers);
  }
  if (report.without_usage > 0) {
    out += fmt::format("note: {} answers came without usage; their tokens are counted by chunks\n",
                       report.without_usage);
  }
  if (report.client_cpu_share > 0.8) {
    out += fmt::format(
        "note: this client used {:.0f} % of a core; its own speed may show in the figures\n",
        report.client_cpu_share * 100.0);
  }
}

void write_summary(base::JsonWriter& json, std::string_view name, const Summary& ms) {
  json.key(name).begin_object();
  json.key("count").value(uint64_t{ms.count}).key("mean").value(ms.mean);
  json.key("p50").value(ms.p50).key("p90").value(ms.p90).key("p95").value(ms.p95);
  json.key("p99").value(ms.p99).key("max").value(ms.max).end_object();
}

// What a replay's prompts and arrivals are is told with the trace.
void write_options(base::JsonWriter& json, const BenchServeOptions& options, bool of_replay) {
  json.key("options").begin_object();
  json.key("url").value(options.url);
  json.key("requests").value(options.requests).key("concurrency").value(options.concurrency);
  if (!of_replay) {
    json.key("endpoint").value(options.endpoint == BenchEndpoint::kChat ? "chat" : "completions");
    json.key("rate").value(options.rate).key("burstiness").value(options.burstiness);
    json.key("dataset").value(options.dataset);
    json.key("input_tokens").value(options.input_tokens);
    json.key("output_tokens").value(options.output_tokens);
    json.key("range_ratio").value(options.range_ratio);
    json.key("prefix_tokens").value(options.prefix_tokens);
    json.key("prefix_groups").value(options.prefix_groups);
  }
  json.key("temperature").value(options.temperature);
  json.key("ignore_eos").value(!options.stop_at_eos);
  json.key("seed").value(options.seed).end_object();
}

void write_goodput(base::JsonWriter& json, const BenchReport& report) {
  json.key("goodput");
  if (!report.bounds.any()) {
    json.null();
    return;
  }
  json.begin_object();
  const auto bound = [&json](std::string_view name, const std::optional<double>& ms) {
    if (ms) json.key(name).value(*ms);
  };
  bound("ttft_ms", report.bounds.ttft_ms);
  bound("tpot_ms", report.bounds.tpot_ms);
  bound("itl_ms", report.bounds.itl_ms);
  bound("e2e_ms", report.bounds.e2e_ms);
  const uint64_t all = report.completed + report.failed();
  json.key("good").value(report.good);
  json.key("share").value(static_cast<double>(report.good) / static_cast<double>(all));
  json.key("requests_per_s").value(report.good_per_s).end_object();
}

void write_replay(base::JsonWriter& json, const BenchReport& report, const ReplayFacts& facts) {
  json.key("replay").begin_object();
  json.key("trace").value(facts.trace).key("kind").value(facts.kind);
  json.key("start").value(facts.start).key("time_scale").value(facts.time_scale);
  json.key("length_scale").value(facts.length_scale);
  json.key("block_tokens").value(facts.block_tokens);
  json.key("closed_loop").value(facts.closed_loop).key("flushed").value(facts.flushed);
  json.key("one_at_a_time").value(report.one_at_a_time());
  json.key("cached_share").value(report.cached_share());
  json.key("simulated");
  if (!facts.cache) {
    json.null().key("not_simulated").value(facts.not_simulated).end_object();
    return;
  }
  json.begin_object();
  json.key("pages").value(facts.cache->pages).key("page_tokens").value(facts.cache->page_tokens);
  json.key("keeps_answers").value(facts.cache->keeps_answers);
  json.key("cached_tokens").value(report.simulated_cached_tokens);
  json.key("cached_share").value(report.simulated_share());
  json.key("cached_tokens_of_requests").begin_array();
  for (const int64_t tokens : facts.simulated) json.value(tokens);
  json.end_array().end_object().end_object();
}

void write_record(base::JsonWriter& json, const RequestRecord& record) {
  json.begin_object();
  json.key("index").value(record.index).key("start_s").value(record.start_s);
  json.key("failure");
  record.failure.empty() ? json.null() : json.value(record.failure);
  json.key("failure_text");
  record.failure.empty() ? json.null() : json.value(record.failure_text);
  json.key("finish_reason");
  record.finish_reason.empty() ? json.null() : json.value(record.finish_reason);
  json.key("input_tokens").value(record.input_tokens);
  json.key("output_tokens").value(record.output_tokens);
  json.key("cached_tokens").value(record.cached_tokens);
  json.key("ttft_s").value(record.ttft_s).key("tpot_s").value(record.tpot_s);
  json.key("e2e_s").value(record.e2e_s).key("itl_s").begin_array();
  for (const double gap : record.itl_s) json.value(gap);
  json.end_array().end_object();
}

}  // namespace

std::string report_text(const BenchServeOptions& options, const BenchReport& report) {
  std::string out;
  headline(out, " Serving Benchmark Result ", '=');
  line(out, "Model:", report.model);
  line(out, "Successful requests:", report.completed);
  line(out, "Failed requests:", report.failed());
  if (options.rate > 0.0) line(out, "Request rate configured (req/s):", options.rate);
  line(out, "Peak concurrent requests:", report.open_max);
  line(out, "Benchmark duration (s):", report.duration_s);
  line(out, "Total input tokens:", static_cast<uint64_t>(report.input_tokens));
  line(out, "Total cached input tokens:", static_cast<uint64_t>(report.cached_tokens));
  line(out, "Total generated tokens:", static_cast<uint64_t>(report.output_tokens));
  line(out, "Request throughput (req/s):", report.requests_per_s);
  if (report.bounds.any()) line(out, "Request goodput (req/s):", report.good_per_s);
  line(out, "Input token throughput (tok/s):", report.input_per_s);
  line(out, "Output token throughput (tok/s):", report.output_per_s);
  line(out, "Total token throughput (tok/s):", report.input_per_s + report.output_per_s);
  latency(out, "Time to First Token", "TTFT", report.ttft_ms);
  latency(out, "Time per Output Token (excl. 1st token)", "TPOT", report.tpot_ms);
  latency(out, "Inter-token Latency", "ITL", report.itl_ms);
  latency(out, "End-to-end Latency", "E2EL", report.e2e_ms);
  headline(out, "", '=');
  if (report.bounds.any()) {
    out += fmt::format("goodput: {} of {} requests within {}\n", report.good,
                       report.completed + report.failed(), bounds_text(report.bounds));
  }
  if (report.replay) replay_lines(out, report, *report.replay);
  notes(out, report);
  return out;
}

std::string report_json(const BenchServeOptions& options, const BenchReport& report,
                        const LoadResult& result) {
  base::JsonWriter json;
  json.begin_object().key("bench").value(report.replay ? "replay" : "serve");
  json.key("model").value(report.model);
  write_options(json, options, report.replay.has_value());
  json.key("completed").value(report.completed).key("failed").value(report.failed());
  json.key("failures").begin_object();
  for (const auto& [kind, count] : report.failures) json.key(kind).value(count);
  json.end_object();
  json.key("short_answers").value(report.short_answers);
  json.key("without_usage").value(report.without_usage);
  json.key("duration_s").value(report.duration_s).key("open_max").value(report.open_max);
  json.key("client_cpu_share").value(report.client_cpu_share);
  json.key("input_tokens").value(report.input_tokens);
  json.key("output_tokens").value(report.output_tokens);
  json.key("cached_tokens").value(report.cached_tokens);
  json.key("requests_per_s").value(report.requests_per_s);
  json.key("input_tokens_per_s").value(report.input_per_s);
  json.key("output_tokens_per_s").value(report.output_per_s);
  write_summary(json, "ttft_ms", report.ttft_ms);
  write_summary(json, "tpot_ms", report.tpot_ms);
  write_summary(json, "itl_ms", report.itl_ms);
  write_summary(json, "e2e_ms", report.e2e_ms);
  write_goodput(json, report);
  if (report.replay) write_replay(json, report, *report.replay);
  json.key("requests").begin_array();
  for (const RequestRecord& record : result.records) write_record(json, record);
  json.end_array().end_object();
  return std::move(json).take();
}

}  // namespace bulkhead::apps
