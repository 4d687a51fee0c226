// Every kernel's rate on this machine, and its share of what the machine can do.
//
// Threads: one call at a time; it starts a pool of its own.
// Method: each sample of a kernel stands between samples of the peaks it is held against (FMA or
// tile rate, DRAM reads), so that both see the same neighbours; figures are medians with the 10th
// and 90th percentile. Weights and caches are larger than the last-level cache and visited in turn.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "device/cpu.h"

namespace bulkhead::kernels {

struct BenchOptions {
  unsigned threads = 0;                     // 0: all that this process may use
  int samples = 7;                          // at least 1; medians mean something from 5 on
  std::optional<device::Isa> only_isa;      // none: every vector path that can run here
  double sample_ms = 15.0;                  // a sample repeats its kernel for about this long
  size_t memory_bytes = size_t{512} << 20;  // of weights, and again of cache
};

// A peak of the machine.
struct BenchPeak {
  std::string name;  // "fp32 fma avx2", "dram read", "l2 read"
  std::string unit;  // "GFLOP/s" or "GB/s"
  unsigned threads = 1;
  double median = 0.0, p10 = 0.0, p90 = 0.0;
};

struct BenchRow {
  std::string kernel;  // "gemm"
  std::string isa;
  std::string shape;  // "8 x 2048 x 2048"
  double gflops = 0.0;
  double gbytes = 0.0;  // per second, of the operand that comes from memory
  double ms = 0.0, ms_p10 = 0.0, ms_p90 = 0.0;
  std::string bound_by;  // "fma", "tiles", "dram", "l2": the peak that forbids more
  double share = 0.0;    // of that peak
};

struct BenchReport {
  std::string machine;
  unsigned threads = 1;
  int samples = 0;
  std::vector<BenchPeak> peaks;
  std::vector<BenchRow> rows;
  std::vector<std::string> not_run;  // paths that this machine lacks, with the reason
};

// Errors: kResourceExhausted when memory_bytes cannot be had, kUnsupported for a path it lacks.
base::Result<BenchReport> measure_kernels(const BenchOptions& options);
void print_report(const BenchReport& report, bool json, std::ostream& out);

}  // namespace bulkhead::kernels
