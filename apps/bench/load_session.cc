#include "apps/bench/load_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <fstream>
#include <iostream>
#include <string_view>

#include "apps/bench/arrivals.h"
#include "apps/bench/load_progress.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

constexpr uint64_t kConcurrencyDefault = 8;

base::Error refused(std::string_view what, const http::ClientResponse& response) {
  return base::Error{
      base::ErrorCode::kUnavailable,
      fmt::format("{} answered {}: {}", what, response.status, response.body.substr(0, 300)),
      {}};
}

// A number that must be positive to mean anything; 0 where it is missing or is none.
int64_t positive_at(const json::value& value, const char* pointer) {
  boost::system::error_code bad;
  const json::value* found = value.find_pointer(pointer, bad);
  return found != nullptr && found->is_int64() && found->as_int64() > 0 ? found->as_int64() : 0;
}

std::string text_at(const json::value& value, const char* pointer) {
  boost::system::error_code bad;
  const json::value* found = value.find_pointer(pointer, bad);
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string();
}

std::optional<CacheShape> cache_of(const json::value& info) {
  CacheShape cache;
  const bool shared =
      text_at(info, "/placement").empty() || text_at(info, "/placement") == "shared";
  const int64_t tokens =
      positive_at(info, shared ? "/max_total_num_tokens" : "/pools/prefill/max_total_num_tokens");
  cache.page_tokens = positive_at(info, "/page_size");
  cache.keeps_answers = shared;
  if (tokens == 0 || cache.page_tokens == 0) return std::nullopt;
  cache.pages = tokens / cache.page_tokens;
  return cache;
}

}  // namespace

std::vector<http::Header> load_headers(const BenchServeOptions& options) {
  std::vector<http::Header> headers = {{"Content-Type", "application/json"},
                                       {"Accept", "text/event-stream"}};
  if (!options.api_key.empty()) headers.push_back({"Authorization", "Bearer " + options.api_key});
  return headers;
}

base::Result<Target> ask_models(http::Client& client, const BenchServeOptions& options) {
  BH_ASSIGN(const http::ClientResponse response,
            client.send("GET", "/v1/models", load_headers(options), ""));
  if (response.status != 200) return refused("/v1/models", response);
  Target target;
  target.model = options.model;
  boost::system::error_code bad;
  const json::value body = json::parse(response.body, bad);
  const json::value* data = bad ? nullptr : body.find_pointer("/data", bad);
  if (data == nullptr || !data->is_array()) return base::corrupt("/v1/models is no model list");
  for (const json::value& entry : data->as_array()) {
    const std::string id = text_at(entry, "/id");
    if (id.empty() || (!target.model.empty() && id != target.model)) continue;
    target.model = id;
    target.owner = text_at(entry, "/owned_by");
    target.context_tokens = positive_at(entry, "/max_model_len");
    if (const int64_t known = positive_at(entry, "/meta/n_vocab"); known > 0) {
      target.vocabulary = known;
    }
    break;
  }
  if (target.model.empty()) return base::corrupt("the server lists no model: give --model");
  if (options.vocabulary > 0) target.vocabulary = options.vocabulary;
  return target;
}

ServerFacts ask_server(http::Client& client, const BenchServeOptions& options) {
  ServerFacts facts;
  const base::Result<http::ClientResponse> response =
      client.send("GET", "/get_server_info", load_headers(options), "");
  if (!response.ok() || response->status != 200) return facts;
  boost::system::error_code bad;
  const json::value info = json::parse(response->body, bad);
  if (bad || !info.is_object()) return facts;
  facts.isa = text_at(info, "/isa");
  facts.cache = cache_of(info);
  return facts;
}

base::Status flush_cache(http::Client& client, const BenchServeOptions& options) {
  BH_ASSIGN(const http::ClientResponse response,
            client.send("POST", "/flush_cache", load_headers(options), ""));
  if (response.status != 200) return refused("--flush-cache: /flush_cache", response);
  return {};
}

LoadPlan load_plan(const BenchServeOptions& options) {
  LoadPlan plan;
  plan.headers = load_headers(options);
  plan.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_seconds * 1e3));
  plan.concurrency = options.concurrency;
  if (options.rate > 0.0) {
    plan.arrivals_s =
        arrival_times(options.requests, options.rate, options.burstiness, options.seed);
  } else if (plan.concurrency == 0) {
    plan.concurrency = kConcurrencyDefault;
  }
  return plan;
}

base::Status warm_up(http::AsyncClient& client, const std::vector<BenchRequest>& requests,
                     const BenchServeOptions& options) {
  LoadPlan plan = load_plan(options);
  plan.concurrency = 1;
  plan.arrivals_s.clear();
  const LoadResult result = run_load(client, requests, plan, {});
  for (const RequestRecord& record : result.records) {
    if (record.failure.empty()) continue;
    return base::Error{
        base::ErrorCode::kUnavailable,
        fmt::format("the warm-up request failed ({}): {}", record.failure, record.failure_text),
        {}};
  }
  return {};
}

LoadResult watch_load(http::AsyncClient& client, const std::vector<BenchRequest>& requests,
                      const LoadPlan& plan) {
  LoadProgressLine line(std::cerr, ::isatty(STDERR_FILENO) != 0);
  LoadResult result = run_load(client, requests, plan,
                               [&line](const LoadProgress& progress) { line.update(progress); });
  line.finish();
  return result;
}

base::Status write_text_file(const std::string& path, const std::string& text,
                             const std::string& flag) {
  std::ofstream file(path, std::ios::trunc);
  file << text << '\n';
  file.close();
  if (!file) return base::Error{base::ErrorCode::kIo, "cannot write " + path, flag};
  return {};
}

int exit_code_of(const base::Result<bool>& all_succeeded, bool tolerate_errors) {
  if (!all_succeeded.ok()) {
    std::cerr << "error: " << all_succeeded.error().message << '\n';
    const bool wrong = all_succeeded.error().code == base::ErrorCode::kInvalidArgument ||
                       all_succeeded.error().code == base::ErrorCode::kNotFound;
    return wrong ? 2 : 1;
  }
  return *all_succeeded || tolerate_errors ? 0 : 1;
}

}  // namespace bulkhead::apps
