#include <fmt/format.h>

#include <iostream>

#include "apps/bench/history/history.h"
#include "apps/bench/history/machine.h"
#include "apps/build_commit.h"
#include "commands.h"
#include "device/cpu.h"
#include "kernels/bench/kernel_bench.h"

namespace bulkhead::apps {
namespace {

std::vector<HistoryEntry> figures_of(const kernels::BenchReport& report) {
  HistoryEntry entry;
  entry.bench = "kernels";
  entry.date = history_date();
  entry.commit = build_commit();
  entry.machine = machine_class();
  entry.engine = "Bulkhead";
  entry.settings = fmt::format("{} threads", report.threads);
  std::vector<HistoryEntry> entries;
  entries.reserve(2 * report.rows.size());
  for (const kernels::BenchRow& row : report.rows) {
    entry.isa = row.isa;
    const std::string name = fmt::format("{} {}", row.kernel, row.shape);
    set_figure(entry, name, "ms", row.ms);
    entries.push_back(entry);
    set_figure(entry, name, "of peak", row.share);
    entries.push_back(entry);
  }
  return entries;
}

base::Status bench_kernels(const BenchKernelsOptions& options) {
  kernels::BenchOptions bench;
  bench.threads = options.threads;
  bench.samples = options.samples;
  if (!options.isa.empty()) {
    BH_ASSIGN(bench.only_isa, device::parse_isa(options.isa));
  }
  BH_ASSIGN(const kernels::BenchReport report, kernels::measure_kernels(bench));
  kernels::print_report(report, options.json, std::cout);
  if (options.history.empty()) return {};
  return append_history(options.history, figures_of(report));
}

}  // namespace

int run_bench_kernels(const BenchKernelsOptions& options) {
  const base::Status status = bench_kernels(options);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.error().message << '\n';
  return status.error().code == base::ErrorCode::kInvalidArgument ? 2 : 1;
}

}  // namespace bulkhead::apps
