#include "apps/bench/replay/replay.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "apps/bench/replay/cache_simulator.h"
#include "apps/bench/replay/prompt_maker.h"

namespace bulkhead::apps {
namespace {

// So short that it fits wherever a row may fit.
constexpr int64_t kWarmupTokens = 32;
constexpr int64_t kWarmupAnswer = 4;

class ReplayBuilder {
 public:
  ReplayBuilder(const BenchReplayOptions& options, const Trace& trace, const Target& target,
                std::unique_ptr<CacheSimulator> simulator)
      : options_(options),
        trace_(trace),
        target_(target),
        maker_(options.load.seed, drawable_tokens(target.vocabulary), trace.block_tokens,
               options.length_scale),
        simulator_(std::move(simulator)) {}

  base::Result<Replay> build(ReplayFacts facts) {
    replay_.facts = std::move(facts);
    replay_.facts.block_tokens = maker_.block_tokens();
    BH_TRY(check_size());
    for (uint64_t i = 0; i < options_.load.warmup; ++i) {
      const PromptTokens prompt = maker_.warmup(i, kWarmupTokens);
      replay_.workload.warmup.push_back(request_of(prompt, kWarmupAnswer));
      if (simulator_ && !options_.flush_cache) simulate(prompt, kWarmupAnswer);
    }
    const size_t rows = trace_.rows.size();
    replay_.workload.requests.reserve(rows);
    if (!options_.closed_loop) replay_.arrivals_s.reserve(rows);
    for (const TraceRow& row : trace_.rows) add(row);
    return std::move(replay_);
  }

 private:
  // Before any prompt is made.
  base::Status check_size() const {
    int64_t tokens = 0;
    for (const TraceRow& row : trace_.rows) {
      BH_TRY(check_fit(row, maker_.input_tokens(row) + maker_.output_tokens(row)));
      tokens += maker_.input_tokens(row);
      if (tokens <= kReplayTokensMax) continue;
      return base::invalid_argument(
          "--requests",
          fmt::format("{} line {}: more than {} prompt tokens up to here: take fewer rows with "
                      "--requests or shorter ones with --length-scale",
                      options_.trace, row.line, kReplayTokensMax));
    }
    return {};
  }

  void add(const TraceRow& row) {
    const PromptTokens prompt = maker_.prompt(row);
    const int64_t output_tokens = maker_.output_tokens(row);
    replay_.workload.requests.push_back(request_of(prompt, output_tokens));
    if (!options_.closed_loop) {
      replay_.arrivals_s.push_back(row.arrival_s / options_.time_scale);
    }
    if (simulator_) replay_.facts.simulated.push_back(simulate(prompt, output_tokens));
  }

  base::Status check_fit(const TraceRow& row, int64_t tokens) const {
    if (target_.context_tokens == 0 || tokens <= target_.context_tokens) return {};
    const double scale = std::ceil(options_.length_scale * static_cast<double>(tokens) /
                                   static_cast<double>(target_.context_tokens));
    return base::invalid_argument(
        "--length-scale",
        fmt::format("{} line {}: {} tokens do not fit the server's context of {}: try "
                    "--length-scale {:g}",
                    options_.trace, row.line, tokens, target_.context_tokens, scale));
  }

  BenchRequest request_of(const PromptTokens& prompt, int64_t output_tokens) const {
    return completion_of(options_.load, target_.model, prompt, output_tokens);
  }

  // A request that does not fit the cache is refused, and finds nothing.
  int64_t simulate(const PromptTokens& prompt, int64_t output_tokens) {
    const bool own_answer = options_.load.temperature > 0.0;
    return simulator_->run(prompt, output_tokens, own_answer).value_or(0);
  }

  const BenchReplayOptions& options_;
  const Trace& trace_;
  const Target& target_;
  const PromptMaker maker_;
  const std::unique_ptr<CacheSimulator> simulator_;
  Replay replay_;
};

}  // namespace

std::optional<CacheShape> cache_shape(const BenchReplayOptions& options,
                                      const ServerFacts& server) {
  if (options.cache_pages == 0) return server.cache;
  return CacheShape{.pages = options.cache_pages,
                    .page_tokens = options.page_tokens,
                    .keeps_answers = !server.cache || server.cache->keeps_answers};
}

base::Result<Replay> make_replay(const BenchReplayOptions& options, const Trace& trace,
                                 const Target& target, const std::optional<CacheShape>& cache) {
  ReplayFacts facts;
  facts.trace = options.trace;
  facts.kind = trace.kind;
  facts.start = options.start;
  facts.time_scale = options.time_scale;
  facts.length_scale = options.length_scale;
  facts.closed_loop = options.closed_loop;
  facts.flushed = options.flush_cache;
  facts.not_simulated =
      "the server does not say what its cache holds: give --cache-pages and --page-tokens";
  std::unique_ptr<CacheSimulator> simulator;
  if (cache) {
    auto made = CacheSimulator::create(*cache);
    if (made.ok()) {
      simulator = std::move(made).value();
      facts.cache = cache;
    } else if (options.cache_pages > 0 || made.error().code != base::ErrorCode::kUnsupported) {
      return std::move(made).error();
    } else {
      facts.not_simulated = made.error().message;
    }
  }
  return ReplayBuilder(options, trace, target, std::move(simulator)).build(std::move(facts));
}

}  // namespace bulkhead::apps
