// What loading the real small model costs in memory: the process's own peak, set back before each
// load.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/units.h"
#include "model/testing/files.h"
#include "model/testing/runner.h"

namespace bulkhead::model {
namespace {

// Sets the peak back to what is in use now; false where the system does not let us.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

uint64_t peak_bytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word && word != "VmHWM:") {
  }
  uint64_t kib = 0;
  file >> kib;
  return kib * 1024;
}

#if defined(__has_feature)
#define BULKHEAD_HAS_FEATURE(feature) __has_feature(feature)
#else
#define BULKHEAD_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    BULKHEAD_HAS_FEATURE(address_sanitizer) || BULKHEAD_HAS_FEATURE(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class LoadCost : public ::testing::TestWithParam<std::string> {};

TEST_P(LoadCost, MemoryPeaksBelowOnePointOneFiveTimesTheWeights) {
  const std::filesystem::path path = testing::smollm2_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " has not been fetched";
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would be counted";
  if (!reset_peak()) GTEST_SKIP() << "the peak of this process cannot be set back";
  device::ThreadPool pool({.threads = 2, .scratch_bytes = 64u << 10});
  const auto kernels = kernels::select_kernels(device::detect_cpu(), device::Isa::kRef);
  const uint64_t before = peak_bytes();
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto decoder = load_decoder(*checkpoint, {.weights = *parse_recipe(GetParam())}, *kernels,
                                    pool, {.rows_max = 1}, {});
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  const uint64_t weights = (*decoder)->facts().weight_bytes;
  const uint64_t grown = peak_bytes() - before;
  fmt::print("{}: weights {}, peak grew by {}\n", GetParam(), base::format_bytes(weights),
             base::format_bytes(grown));
  EXPECT_GE(grown, weights / 2);  // the measure itself works
  EXPECT_LT(static_cast<double>(grown), 1.15 * static_cast<double>(weights));
  EXPECT_EQ((*decoder)->facts().parameters, 134'515'008u);
}

INSTANTIATE_TEST_SUITE_P(Recipes, LoadCost, ::testing::Values("bf16", "fp8", "int4"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace bulkhead::model
