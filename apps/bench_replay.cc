#include <iostream>

#include "apps/bench/history/load_history.h"
#include "apps/bench/load_session.h"
#include "apps/bench/replay/replay.h"
#include "apps/bench/report.h"
#include "apps/build_commit.h"
#include "apps/server_address.h"
#include "commands.h"
#include "device/thread_tuning.h"

namespace bulkhead::apps {
namespace {

constexpr std::chrono::seconds kAskTimeout{30};

LoadPlan plan_of(const BenchReplayOptions& options, const Replay& replay) {
  LoadPlan plan = load_plan(options.load);
  plan.arrivals_s = replay.arrivals_s;
  // A trace's own times need no limit.
  if (!plan.arrivals_s.empty()) plan.concurrency = options.load.concurrency;
  return plan;
}

base::Status tell(const BenchReplayOptions& options, const BenchReport& report,
                  const LoadResult& result) {
  std::cout << report_text(options.load, report) << std::flush;
  if (options.load.output.empty()) return {};
  return write_text_file(options.load.output, report_json(options.load, report, result),
                         "--output");
}

// Whether every request succeeded.
base::Result<bool> bench_replay(const BenchReplayOptions& options) {
  BH_ASSIGN(const ServerAddress address, parse_server_url(options.load.url));
  BH_ASSIGN(const GoodputBounds bounds, parse_goodput(options.load.goodput));
  BH_ASSIGN(const Trace trace, read_trace(options.trace, options.start, options.load.requests));
  http::Client asker(address.host, address.port, kAskTimeout);
  BH_ASSIGN(const Target target, ask_models(asker, options.load));
  const ServerFacts server = ask_server(asker, options.load);
  BH_ASSIGN(Replay replay, make_replay(options, trace, target, cache_shape(options, server)));
  BH_ASSIGN(const std::unique_ptr<http::AsyncClient> client,
            http::AsyncClient::create(address.host, address.port));
  BH_TRY(warm_up(*client, replay.workload.warmup, options.load));
  if (options.flush_cache) BH_TRY(flush_cache(asker, options.load));
  const LoadResult result = watch_load(*client, replay.workload.requests, plan_of(options, replay));
  BenchReport report = make_report(options.load, target.model, bounds, result);
  add_replay(std::move(replay.facts), result, report);
  BH_TRY(tell(options, report, result));
  if (!options.load.history.empty()) {
    BH_TRY(append_load_history(options.load, report, target.owner, server.isa, build_commit()));
  }
  return report.failed() == 0;
}

}  // namespace

int run_bench_replay(const BenchReplayOptions& options) {
  // On one machine with the server, a client that waits for its turn would measure itself.
  device::prefer_latency();
  return exit_code_of(bench_replay(options), options.load.tolerate_errors);
}

}  // namespace bulkhead::apps
