#include <iostream>

#include "apps/bench/history/load_history.h"
#include "apps/bench/load_session.h"
#include "apps/bench/report.h"
#include "apps/bench/workload.h"
#include "apps/build_commit.h"
#include "apps/server_address.h"
#include "commands.h"
#include "device/thread_tuning.h"

namespace bulkhead::apps {
namespace {

constexpr std::chrono::seconds kAskTimeout{30};

// Whether every request succeeded.
base::Result<bool> bench_serve(const BenchServeOptions& options) {
  BH_ASSIGN(const ServerAddress address, parse_server_url(options.url));
  BH_ASSIGN(const GoodputBounds bounds, parse_goodput(options.goodput));
  http::Client asker(address.host, address.port, kAskTimeout);
  BH_ASSIGN(const Target target, ask_models(asker, options));
  BH_ASSIGN(const Workload workload, make_workload(options, target.model, target.vocabulary));
  BH_ASSIGN(const std::unique_ptr<http::AsyncClient> client,
            http::AsyncClient::create(address.host, address.port));
  BH_TRY(warm_up(*client, workload.warmup, options));
  const LoadResult result = watch_load(*client, workload.requests, load_plan(options));
  const BenchReport report = make_report(options, target.model, bounds, result);
  std::cout << report_text(options, report) << std::flush;
  if (!options.output.empty()) {
    BH_TRY(write_text_file(options.output, report_json(options, report, result), "--output"));
  }
  if (!options.history.empty()) {
    BH_TRY(append_load_history(options, report, target.owner, ask_server(asker, options).isa,
                               build_commit()));
  }
  return report.failed() == 0;
}

}  // namespace

int run_bench_serve(const BenchServeOptions& options) {
  // On one machine with the server, a client that waits for its turn would measure itself.
  device::prefer_latency();
  return exit_code_of(bench_serve(options), options.tolerate_errors);
}

}  // namespace bulkhead::apps
