#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <fstream>
#include <iostream>

#include "apps/bench/arrivals.h"
#include "apps/bench/load_progress.h"
#include "apps/bench/load_run.h"
#include "apps/bench/report.h"
#include "apps/bench/workload.h"
#include "apps/server_address.h"
#include "commands.h"
#include "device/thread_tuning.h"
#include "http/client.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

constexpr uint64_t kConcurrencyDefault = 8;
constexpr int64_t kVocabularyDefault = 10000;
constexpr std::chrono::seconds kAskTimeout{30};

std::vector<http::Header> headers_of(const BenchServeOptions& options) {
  std::vector<http::Header> headers = {{"Content-Type", "application/json"},
                                       {"Accept", "text/event-stream"}};
  if (!options.api_key.empty()) headers.push_back({"Authorization", "Bearer " + options.api_key});
  return headers;
}

struct Target {
  std::string model;
  int64_t vocabulary = kVocabularyDefault;
};

// What /v1/models says about the model to be asked, where it says anything.
base::Result<Target> ask_models(const BenchServeOptions& options, const ServerAddress& address) {
  http::Client client(address.host, address.port, kAskTimeout);
  BH_ASSIGN(const http::ClientResponse response,
            client.send("GET", "/v1/models", headers_of(options), ""));
  if (response.status != 200) {
    return base::Error{
        base::ErrorCode::kUnavailable,
        fmt::format("/v1/models answered {}: {}", response.status, response.body.substr(0, 300)),
        {}};
  }
  Target target;
  target.model = options.model;
  boost::system::error_code bad;
  const json::value body = json::parse(response.body, bad);
  const json::value* data = bad ? nullptr : body.find_pointer("/data", bad);
  if (data == nullptr || !data->is_array()) return base::corrupt("/v1/models is no model list");
  for (const json::value& entry : data->as_array()) {
    const json::value* id = entry.find_pointer("/id", bad);
    if (id == nullptr || !id->is_string()) continue;
    if (!target.model.empty() && id->as_string() != target.model) continue;
    target.model = id->as_string();
    const json::value* vocabulary = entry.find_pointer("/meta/n_vocab", bad);
    if (vocabulary != nullptr && vocabulary->is_int64() && vocabulary->as_int64() > 0) {
      target.vocabulary = vocabulary->as_int64();
    }
    break;
  }
  if (target.model.empty()) return base::corrupt("the server lists no model: give --model");
  return target;
}

LoadPlan plan_of(const BenchServeOptions& options) {
  LoadPlan plan;
  plan.headers = headers_of(options);
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

// One after the other, so that nothing of the first request's cost is measured.
base::Status warm_up(http::AsyncClient& client, const Workload& workload,
                     const BenchServeOptions& options) {
  LoadPlan plan = plan_of(options);
  plan.concurrency = 1;
  plan.arrivals_s.clear();
  const LoadResult result = run_load(client, workload.warmup, plan, {});
  for (const RequestRecord& record : result.records) {
    if (record.failure.empty()) continue;
    return base::Error{
        base::ErrorCode::kUnavailable,
        fmt::format("the warm-up request failed ({}): {}", record.failure, record.failure_text),
        {}};
  }
  return {};
}

base::Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text << '\n';
  file.close();
  if (!file) return base::Error{base::ErrorCode::kIo, "cannot write " + path, "--output"};
  return {};
}

// Whether every request succeeded.
base::Result<bool> bench_serve(const BenchServeOptions& options) {
  BH_ASSIGN(const ServerAddress address, parse_server_url(options.url));
  BH_ASSIGN(const GoodputBounds bounds, parse_goodput(options.goodput));
  BH_ASSIGN(Target target, ask_models(options, address));
  if (options.vocabulary > 0) target.vocabulary = options.vocabulary;
  BH_ASSIGN(const Workload workload, make_workload(options, target.model, target.vocabulary));
  BH_ASSIGN(const std::unique_ptr<http::AsyncClient> client,
            http::AsyncClient::create(address.host, address.port));
  BH_TRY(warm_up(*client, workload, options));
  LoadProgressLine line(std::cerr, ::isatty(STDERR_FILENO) != 0);
  const LoadResult result =
      run_load(*client, workload.requests, plan_of(options),
               [&line](const LoadProgress& progress) { line.update(progress); });
  line.finish();
  const BenchReport report = make_report(options, target.model, bounds, result);
  std::cout << report_text(options, report) << std::flush;
  if (!options.output.empty()) {
    BH_TRY(write_file(options.output, report_json(options, report, result)));
  }
  return report.failed() == 0;
}

}  // namespace

int run_bench_serve(const BenchServeOptions& options) {
  // On one machine with the server, a client that waits for its turn would measure itself.
  device::prefer_latency();
  const base::Result<bool> all_succeeded = bench_serve(options);
  if (!all_succeeded.ok()) {
    std::cerr << "error: " << all_succeeded.error().message << '\n';
    const bool wrong = all_succeeded.error().code == base::ErrorCode::kInvalidArgument ||
                       all_succeeded.error().code == base::ErrorCode::kNotFound;
    return wrong ? 2 : 1;
  }
  return *all_succeeded || options.tolerate_errors ? 0 : 1;
}

}  // namespace bulkhead::apps
