#include "apps/bench/history/load_history.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "apps/bench/history/machine.h"

namespace bulkhead::apps {
namespace {

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// What the two commands share: how many requests, and how many of them at once.
std::string load_settings(const BenchServeOptions& options) {
  std::string text = fmt::format("{} requests", options.requests);
  if (options.concurrency > 0) text += fmt::format(", {} at once", options.concurrency);
  if (options.temperature > 0.0) text += fmt::format(", temperature {:g}", options.temperature);
  if (options.stop_at_eos) text += ", to their end";
  return text;
}

std::string serve_settings(const BenchServeOptions& options) {
  std::string text = load_settings(options);
  if (options.rate > 0.0) {
    text += fmt::format(", {:g} a second, burstiness {:g}", options.rate, options.burstiness);
  }
  if (!options.dataset.empty()) return text + ", " + file_name(options.dataset);
  text += fmt::format(", {} + {} tokens", options.input_tokens, options.output_tokens);
  if (options.range_ratio > 0.0) text += fmt::format(" +- {:g}", options.range_ratio);
  if (options.prefix_tokens > 0) {
    text += fmt::format(", prefix {} of {}", options.prefix_tokens, options.prefix_groups);
  }
  return text;
}

std::string replay_settings(const BenchServeOptions& options, const ReplayFacts& facts) {
  std::string text = fmt::format("{}, {} from row {}, lengths / {:g}", load_settings(options),
                                 file_name(facts.trace), facts.start, facts.length_scale);
  if (!facts.closed_loop) text += fmt::format(", times / {:g}", facts.time_scale);
  if (facts.cache) {
    text += fmt::format(", {} pages of {}", facts.cache->pages, facts.cache->page_tokens);
  }
  return text;
}

}  // namespace

HistoryEntry load_entry(const BenchServeOptions& options, const BenchReport& report,
                        const std::string& engine, const std::string& isa,
                        const std::string& commit) {
  HistoryEntry entry;
  entry.bench = report.replay ? "replay" : "serve";
  entry.date = history_date();
  entry.commit = commit;
  entry.machine = machine_class();
  entry.model = report.model;
  entry.isa = isa;
  entry.engine = engine;
  entry.settings =
      report.replay ? replay_settings(options, *report.replay) : serve_settings(options);
  return entry;
}

std::vector<HistoryEntry> load_figures(const HistoryEntry& of, const BenchReport& report) {
  std::vector<HistoryEntry> entries;
  if (report.failed() > 0) return entries;
  const auto add = [&](const char* figure, const char* unit, double value) {
    entries.push_back(of);
    set_figure(entries.back(), figure, unit, value);
  };
  add("requests", "req/s", report.requests_per_s);
  add("output", "tokens/s", report.output_per_s);
  add("TTFT p50", "ms", report.ttft_ms.p50);
  add("TTFT p99", "ms", report.ttft_ms.p99);
  if (report.itl_ms.count > 0) {
    add("ITL p50", "ms", report.itl_ms.p50);
    add("ITL p99", "ms", report.itl_ms.p99);
  }
  add("E2E p50", "ms", report.e2e_ms.p50);
  if (report.bounds.any()) add("goodput", "req/s", report.good_per_s);
  if (report.replay) add("prefix hits", "%", 100.0 * report.cached_share());
  return entries;
}

base::Status append_load_history(const BenchServeOptions& options, const BenchReport& report,
                                 const std::string& engine, const std::string& isa,
                                 const std::string& commit) {
  return append_history(options.history,
                        load_figures(load_entry(options, report, engine, isa, commit), report));
}

}  // namespace bulkhead::apps
