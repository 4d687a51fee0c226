#include <iostream>

#include "commands.h"
#include "device/cpu.h"
#include "kernels/bench/kernel_bench.h"

namespace bulkhead::apps {

int run_bench_kernels(const BenchKernelsOptions& options) {
  kernels::BenchOptions bench;
  bench.threads = options.threads;
  bench.samples = options.samples;
  bench.json = options.json;
  if (!options.isa.empty()) {
    const base::Result<device::Isa> isa = device::parse_isa(options.isa);
    if (!isa.ok()) {
      std::cerr << "error: " << isa.error().message << '\n';
      return 2;
    }
    bench.only_isa = *isa;
  }
  const base::Status status = kernels::run_kernel_bench(bench, std::cout);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.error().message << '\n';
  return 1;
}

}  // namespace bulkhead::apps
