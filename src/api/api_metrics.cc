#include "api/api_metrics.h"

#include <algorithm>
#include <string>
#include <vector>

#include "wire/faults.h"

namespace bulkhead::api {
namespace {

// Seconds.
std::vector<double> ttft_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
}
std::vector<double> itl_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
          0.4,   0.5,    0.75,  1,    2.5,   5,    7.5,   10,  20,   40,  80};
}
std::vector<double> request_bounds() {
  return {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
          30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
}
// 1-2-5 steps up to the longest there can be.
std::vector<double> token_bounds(int32_t context_tokens) {
  std::vector<double> bounds;
  for (double decade = 1; decade <= 1e9; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if (decade * step > context_tokens && !bounds.empty()) return bounds;
      bounds.push_back(decade * step);
    }
  }
  return bounds;
}

// Of the pages that requests hold. Those of the prefix index alone are given up when needed.
double usage(const wire::PageGauges& pages) {
  if (pages.total <= 0) return 0;
  return static_cast<double>(pages.used()) / static_cast<double>(pages.total);
}

void register_gauges(telemetry::Registry& registry, const wire::Generator& generator) {
  const auto gauge = [&](const char* name, const char* help, auto read,
                         telemetry::Labels labels = {}) {
    registry.gauge(
        name, help, [&generator, read] { return static_cast<double>(read(generator.status())); },
        std::move(labels));
  };
  using Status = wire::GeneratorStatus;
  register_running(registry, [&generator] { return generator.status(); });
  gauge("vllm:num_requests_waiting", "Requests waiting", [](const Status& s) { return s.waiting; });
  registry.alias("sglang:num_queue_reqs", "vllm:num_requests_waiting");
  gauge("vllm:kv_cache_usage_perc", "Share of the cache that requests hold, 0 to 1",
        [](const Status& s) { return usage(s.pages); });
  registry.alias("sglang:token_usage", "vllm:kv_cache_usage_perc");
  const int32_t cache_tokens = generator.limits().cache_tokens;
  gauge("sglang:num_used_tokens", "Tokens of cache in pages that requests hold",
        [cache_tokens](const Status& s) { return cache_tokens * usage(s.pages); });
  gauge("sglang:gen_throughput", "Tokens decoded a second, over the last second of decoding",
        [](const Status& s) { return s.decode_tokens_per_second; });
  gauge("sglang:max_total_num_tokens", "Tokens that the whole cache holds",
        [cache_tokens](const Status&) { return cache_tokens; });
  const auto pages = [&generator] { return generator.status().pages; };
  if (generator.limits().prefill_cache_tokens == 0) return register_pages(registry, pages, {});
  const auto prefill_pages = [&generator] {
    return generator.status().prefill_pages.value_or(wire::PageGauges{});
  };
  register_pages(registry, pages, {{"pool", "decode"}});
  register_pages(registry, prefill_pages, {{"pool", "prefill"}});
}

}  // namespace

void register_running(telemetry::Registry& registry,
                      const std::function<wire::GeneratorStatus()>& status) {
  registry.gauge("vllm:num_requests_running", "Requests decoding or in prefill",
                 [status] { return static_cast<double>(status().running); });
  registry.alias("sglang:num_running_reqs", "vllm:num_requests_running");
}

void register_pages(telemetry::Registry& registry, const std::function<wire::PageGauges()>& pages,
                    const telemetry::Labels& labels) {
  const auto gauge = [&](const char* state, auto read) {
    telemetry::Labels all = labels;
    all.emplace_back("state", state);
    registry.gauge(
        "bulkhead_kv_pages",
        "Cache pages: free, held by the prefix index alone, held by requests or promised to them",
        [pages, read] { return static_cast<double>(read(pages())); }, std::move(all));
  };
  gauge("free", [](const wire::PageGauges& p) { return p.free; });
  gauge("cached", [](const wire::PageGauges& p) { return p.cached; });
  gauge("used", [](const wire::PageGauges& p) { return p.used(); });
}

std::string_view to_string(CancelCause cause) {
  switch (cause) {
    case CancelCause::kDisconnect:
      return "disconnect";
    case CancelCause::kAbortRequest:
      return "abort_request";
    case CancelCause::kSlowReader:
      return "slow_reader";
    case CancelCause::kDeadline:
      return "deadline";
    case CancelCause::kShutdown:
      return "shutdown";
  }
  return "disconnect";
}

ApiMetrics::Counts::Counts(telemetry::Registry& registry)
    : prompt_tokens(
          registry.counter("vllm:prompt_tokens_total", "Prompt tokens of ended requests")),
      cached_tokens(registry.counter("vllm:prompt_tokens_cached_total",
                                     "Prompt tokens taken from the prefix index")),
      generation_tokens(
          registry.counter("vllm:generation_tokens_total", "Tokens generated for ended requests")),
      requests(registry.counter("sglang:num_requests_total",
                                "Requests accepted for generation, whatever their choices")),
      aborted(registry.counter("sglang:num_aborted_requests_total",
                               "Generations that were cancelled or ran into their deadline")),
      preemptions(registry.counter("vllm:num_preemptions_total",
                                   "Times that a request gave way to others and was run again")),
      corrupted(registry.counter("vllm:corrupted_requests_total",
                                 "Generations that ended because logits were not numbers")) {
  registry.alias("sglang:num_retractions_total", "vllm:num_preemptions_total");
  registry.alias("sglang:prompt_tokens_total", "vllm:prompt_tokens_total");
  registry.alias("sglang:generation_tokens_total", "vllm:generation_tokens_total");
  registry.alias("sglang:cached_tokens_total", "vllm:prompt_tokens_cached_total",
                 {{"source", "device"}});
  registry.alias("vllm:prefix_cache_queries_total", "vllm:prompt_tokens_total");
  registry.alias("vllm:prefix_cache_hits_total", "vllm:prompt_tokens_cached_total");
  registry.gauge("sglang:cache_hit_rate", "Share of all prompt tokens that the prefix index had",
                 [&all = prompt_tokens, &hits = cached_tokens] {
                   const auto tokens = static_cast<double>(all.value());
                   return tokens > 0 ? static_cast<double>(hits.value()) / tokens : 0.0;
                 });
}

ApiMetrics::Times::Times(telemetry::Registry& registry)
    : first_token(registry.histogram("vllm:time_to_first_token_seconds",
                                     "Arrival of the request to its first token", ttft_bounds())),
      next_token(registry.histogram("vllm:inter_token_latency_seconds",
                                    "Time between two tokens of one request", itl_bounds())),
      whole(registry.histogram("vllm:e2e_request_latency_seconds",
                               "Arrival of the request to its end", request_bounds())),
      per_token(registry.histogram("vllm:request_time_per_output_token_seconds",
                                   "Decode time of a request by its tokens", itl_bounds())),
      queue(registry.histogram("vllm:request_queue_time_seconds", "Time in the waiting queue",
                               request_bounds())),
      prefill(registry.histogram("vllm:request_prefill_time_seconds", "Time in prefill",
                                 request_bounds())),
      decode(registry.histogram("vllm:request_decode_time_seconds", "Time in decode",
                                request_bounds())),
      inference(registry.histogram("vllm:request_inference_time_seconds",
                                   "Time in prefill and decode together", request_bounds())) {
  registry.alias("sglang:time_to_first_token_seconds", "vllm:time_to_first_token_seconds");
  registry.alias("sglang:inter_token_latency_seconds", "vllm:inter_token_latency_seconds");
  registry.alias("vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds");
  registry.alias("sglang:e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds");
  registry.alias("sglang:time_per_output_token_seconds",
                 "vllm:request_time_per_output_token_seconds");
  registry.alias("sglang:queue_time_seconds", "vllm:request_queue_time_seconds");
  const char* stages = "sglang:per_stage_req_latency_seconds";
  registry.alias(stages, "vllm:request_queue_time_seconds", {{"stage", "queue"}});
  registry.alias(stages, "vllm:request_prefill_time_seconds", {{"stage", "prefill"}});
  registry.alias(stages, "vllm:request_decode_time_seconds", {{"stage", "decode"}});
}

ApiMetrics::Shapes::Shapes(telemetry::Registry& registry, int32_t context_tokens)
    : prompt(registry.histogram("vllm:request_prompt_tokens", "Prompt tokens by request",
                                token_bounds(context_tokens))),
      generation(registry.histogram("vllm:request_generation_tokens", "Generated tokens by request",
                                    token_bounds(context_tokens))),
      max_tokens(registry.histogram("vllm:request_params_max_tokens",
                                    "Most tokens a request may generate",
                                    token_bounds(context_tokens))),
      choices(registry.histogram("vllm:request_params_n", "Choices that a request asked for",
                                 {1, 2, 5, 10, 20})) {
  registry.alias("sglang:prompt_tokens_histogram", "vllm:request_prompt_tokens");
  registry.alias("sglang:generation_tokens_histogram", "vllm:request_generation_tokens");
}

ApiMetrics::ApiMetrics(telemetry::Registry& registry, const wire::Generator& generator)
    : responses_(registry),
      counts_(registry),
      times_(registry),
      shapes_(registry, generator.limits().context_tokens) {
  register_labelled(registry);
  register_gauges(registry, generator);
}

void ApiMetrics::register_labelled(telemetry::Registry& registry) {
  for (const std::string_view reason : kFinishedReasons) {
    reasons_[reason] = &registry.counter("vllm:request_success_total",
                                         "Ended generations by reason; n of them for one request",
                                         {{"finished_reason", std::string(reason)}});
  }
  for (size_t cause = 0; cause < kCancelCauseCount; ++cause) {
    causes_[cause] = &registry.counter(
        "bulkhead_requests_cancelled_total", "Generations that ended before their time, by cause",
        {{"cause", std::string(to_string(static_cast<CancelCause>(cause)))}});
  }
  constexpr std::array kOutcomes = {"complete", "malformed", "truncated"};
  for (size_t outcome = 0; outcome < kOutcomes.size(); ++outcome) {
    calls_[outcome] = &registry.counter("bulkhead_tool_calls_total",
                                        "Tool calls that models wrote, by what became of them",
                                        {{"outcome", kOutcomes[outcome]}});
  }
}

void ApiMetrics::calls(const CallCounts& counts) {
  calls_[0]->add(static_cast<uint64_t>(counts.complete));
  calls_[1]->add(static_cast<uint64_t>(counts.malformed));
  calls_[2]->add(static_cast<uint64_t>(counts.truncated));
}

void ApiMetrics::accepted(int64_t choices) {
  counts_.requests.add();
  shapes_.choices.observe(static_cast<double>(choices));
}

void ApiMetrics::first_token(base::Nanoseconds since_arrival) {
  times_.first_token.observe(base::to_seconds(since_arrival));
}

void ApiMetrics::next_token(base::Nanoseconds since_previous) {
  times_.next_token.observe(base::to_seconds(since_previous));
}

void ApiMetrics::cancelled(CancelCause cause) { causes_[static_cast<size_t>(cause)]->add(); }

void ApiMetrics::finished(std::string_view reason, const wire::FinishEvent& event,
                          const Usage& usage, base::Nanoseconds since_arrival, int32_t max_tokens) {
  const auto count = [](int32_t n) { return static_cast<uint64_t>(std::max(n, 0)); };
  reasons_.at(reason)->add();
  // What went wrong elsewhere says nothing of the logits.
  if (reason == "error" && !(event.error && wire::is_fault(*event.error))) counts_.corrupted.add();
  if (reason == "abort" || reason == "deadline") counts_.aborted.add();
  counts_.prompt_tokens.add(count(usage.prompt_tokens));
  counts_.cached_tokens.add(count(usage.cached_tokens));
  counts_.generation_tokens.add(count(usage.completion_tokens));
  counts_.preemptions.add(count(event.preemptions));
  shapes_.prompt.observe(usage.prompt_tokens);
  shapes_.generation.observe(usage.completion_tokens);
  shapes_.max_tokens.observe(max_tokens);
  times_.whole.observe(base::to_seconds(since_arrival));
  times_.queue.observe(base::to_seconds(event.queue_time));
  times_.prefill.observe(base::to_seconds(event.prefill_time));
  times_.decode.observe(base::to_seconds(event.decode_time));
  times_.inference.observe(base::to_seconds(event.prefill_time + event.decode_time));
  if (usage.completion_tokens > 1) {
    times_.per_token.observe(base::to_seconds(event.decode_time) / (usage.completion_tokens - 1));
  }
}

}  // namespace bulkhead::api
