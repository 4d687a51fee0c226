#include "api/api_metrics.h"

#include <algorithm>
#include <string>
#include <vector>

namespace bulkhead::api {
namespace {

// Every status the API can answer; 499 is a client that left before its answer.
constexpr std::array<int, 12> kStatuses = {200, 400, 401, 404, 405, 408,
                                           415, 429, 499, 500, 503, 0};

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
// 1-2-5 steps.
std::vector<double> token_bounds() {
  return {1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
          2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
}

double busy_share(const wire::GeneratorStatus& status) {
  if (status.pages_total <= 0) return 0;
  return 1.0 - static_cast<double>(status.pages_free) / static_cast<double>(status.pages_total);
}

}  // namespace

std::string_view to_string(RouteId route) {
  switch (route) {
    case RouteId::kChat:
      return "/v1/chat/completions";
    case RouteId::kCompletions:
      return "/v1/completions";
    case RouteId::kModels:
      return "/v1/models";
    case RouteId::kHealth:
      return "/health";
    case RouteId::kMetrics:
      return "/metrics";
    case RouteId::kVersion:
      return "/version";
    case RouteId::kOther:
      return "other";
  }
  return "other";
}

ApiMetrics::ApiMetrics(telemetry::Registry& registry, const wire::Generator& generator)
    : prompt_tokens_(
          registry.counter("vllm:prompt_tokens_total", "Prompt tokens of ended requests")),
      cached_tokens_(registry.counter("vllm:prompt_tokens_cached_total",
                                      "Prompt tokens taken from the prefix index")),
      generation_tokens_(
          registry.counter("vllm:generation_tokens_total", "Tokens generated for ended requests")),
      ttft_(registry.histogram("vllm:time_to_first_token_seconds",
                               "Arrival of the request to its first token", ttft_bounds())),
      itl_(registry.histogram("vllm:inter_token_latency_seconds",
                              "Time between two tokens of one request", itl_bounds())),
      e2e_(registry.histogram("vllm:e2e_request_latency_seconds",
                              "Arrival of the request to its end", request_bounds())),
      per_token_(registry.histogram("vllm:request_time_per_output_token_seconds",
                                    "Decode time of a request by its tokens", itl_bounds())),
      queue_(registry.histogram("vllm:request_queue_time_seconds", "Time in the waiting queue",
                                request_bounds())),
      prefill_(registry.histogram("vllm:request_prefill_time_seconds", "Time in prefill",
                                  request_bounds())),
      decode_(registry.histogram("vllm:request_decode_time_seconds", "Time in decode",
                                 request_bounds())),
      prompt_sizes_(registry.histogram("vllm:request_prompt_tokens", "Prompt tokens by request",
                                       token_bounds())),
      generation_sizes_(registry.histogram("vllm:request_generation_tokens",
                                           "Generated tokens by request", token_bounds())),
      max_tokens_(registry.histogram("vllm:request_params_max_tokens",
                                     "Most tokens a request may generate", token_bounds())) {
  for (size_t route = 0; route < kRouteCount; ++route) {
    const auto id = static_cast<RouteId>(route);
    for (const int status : kStatuses) {
      const std::string text = status == 0 ? "other" : std::to_string(status);
      responses_[{id, status}] =
          &registry.counter("bulkhead_http_responses_total", "Answers by endpoint and status",
                            {{"endpoint", std::string(to_string(id))}, {"status", text}});
    }
  }
  for (const std::string_view reason : kFinishedReasons) {
    reasons_[reason] = &registry.counter("vllm:request_success_total", "Ended requests by reason",
                                         {{"finished_reason", std::string(reason)}});
  }
  const auto gauge = [&](const char* vllm, const char* sglang, const char* help, auto read) {
    const auto now = [&generator, read] { return read(generator.status()); };
    registry.gauge(vllm, help, now);
    registry.gauge(sglang, help, now);
  };
  gauge("vllm:num_requests_running", "sglang:num_running_reqs", "Requests decoding or in prefill",
        [](const wire::GeneratorStatus& s) { return static_cast<double>(s.running); });
  gauge("vllm:num_requests_waiting", "sglang:num_queue_reqs", "Requests waiting",
        [](const wire::GeneratorStatus& s) { return static_cast<double>(s.waiting); });
  gauge("vllm:kv_cache_usage_perc", "sglang:token_usage", "Share of the cache in use, 0 to 1",
        busy_share);
}

void ApiMetrics::count_response(RouteId route, int status) {
  auto found = responses_.find({route, status});
  if (found == responses_.end()) found = responses_.find({route, 0});
  found->second->add();
}

void ApiMetrics::first_token(base::Nanoseconds since_arrival) {
  ttft_.observe(base::to_seconds(since_arrival));
}

void ApiMetrics::next_token(base::Nanoseconds since_previous) {
  itl_.observe(base::to_seconds(since_previous));
}

void ApiMetrics::finished(std::string_view reason, const wire::FinishEvent& event,
                          const Usage& usage, base::Nanoseconds since_arrival, int32_t max_tokens) {
  const auto count = [](int32_t tokens) { return static_cast<uint64_t>(std::max(tokens, 0)); };
  reasons_.at(reason)->add();
  prompt_tokens_.add(count(usage.prompt_tokens));
  cached_tokens_.add(count(usage.cached_tokens));
  generation_tokens_.add(count(usage.completion_tokens));
  prompt_sizes_.observe(usage.prompt_tokens);
  generation_sizes_.observe(usage.completion_tokens);
  max_tokens_.observe(max_tokens);
  e2e_.observe(base::to_seconds(since_arrival));
  queue_.observe(base::to_seconds(event.queue_time));
  prefill_.observe(base::to_seconds(event.prefill_time));
  decode_.observe(base::to_seconds(event.decode_time));
  if (usage.completion_tokens > 1) {
    per_token_.observe(base::to_seconds(event.decode_time) / (usage.completion_tokens - 1));
  }
}

}  // namespace bulkhead::api
