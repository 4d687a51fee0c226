#include "kernels/bench/kernel_bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace bulkhead::kernels {
namespace {

// Whether the figures are good is for a quiet machine to say; that they are there is for a test.
BenchOptions tiny() {
  BenchOptions options;
  options.threads = 2;
  options.samples = 1;
  options.sample_ms = 0.01;
  options.memory_bytes = size_t{48} << 20;
  return options;
}

TEST(KernelBench, EveryRunnablePathHasItsPeaksAndRows) {
  const device::CpuFacts cpu = device::detect_cpu();
  if (!device::available(cpu, device::Isa::kAvx2)) GTEST_SKIP() << "NOT RUN: no avx2 here";
  const base::Result<BenchReport> report = measure_kernels(tiny());
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->threads, 2u);
  EXPECT_GE(report->peaks.size(), 6u);
  for (const BenchPeak& peak : report->peaks) EXPECT_GT(peak.median, 0.0) << peak.name;
  for (const device::Isa isa : {device::Isa::kAvx2, device::Isa::kAvx512, device::Isa::kAmx}) {
    int gemms = 0;
    for (const BenchRow& row : report->rows) {
      if (row.isa == device::to_string(isa) && row.kernel == "gemm") ++gemms;
      EXPECT_TRUE(std::isfinite(row.share));
      EXPECT_GT(row.ms, 0.0);
      EXPECT_FALSE(row.bound_by.empty());
    }
    EXPECT_EQ(gemms > 0, device::available(cpu, isa)) << device::to_string(isa);
  }
}

TEST(KernelBench, PrintsTextAndJson) {
  BenchReport report;
  report.machine = "a \"machine\"";
  report.rows.push_back({.kernel = "gemm",
                         .isa = "avx2",
                         .shape = "1 x 2 -> 3",
                         .gflops = 1.5,
                         .gbytes = 2.0,
                         .ms = 3.0,
                         .ms_p10 = 2.5,
                         .ms_p90 = 3.5,
                         .bound_by = "dram",
                         .share = 0.85});
  report.not_run.push_back("this processor lacks the amx path");
  std::ostringstream text;
  print_report(report, false, text);
  EXPECT_NE(text.str().find("85 % dram"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("not run: this processor lacks the amx path"), std::string::npos);
  std::ostringstream json;
  print_report(report, true, json);
  EXPECT_NE(json.str().find("\"machine\":\"a \\\"machine\\\"\""), std::string::npos);
  EXPECT_NE(json.str().find("\"share\":0.85"), std::string::npos) << json.str();
}

TEST(KernelBench, OptionsThatMakeNoSenseAreRefused) {
  BenchOptions options = tiny();
  options.samples = 0;
  EXPECT_FALSE(measure_kernels(options).ok());
}

}  // namespace
}  // namespace bulkhead::kernels
