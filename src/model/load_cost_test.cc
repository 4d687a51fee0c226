// What loading the real small model costs in memory. A process of its own: the peak is the
// process's.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/units.h"
#include "model/testing/files.h"
#include "model/testing/runner.h"

namespace bulkhead::model {
namespace {

uint64_t peak_bytes() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
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

TEST(LoadCost, MemoryPeaksBelowOnePointOneFiveTimesTheWeights) {
  const std::filesystem::path path = testing::smollm2_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " has not been fetched";
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would be counted";
  device::ThreadPool pool({.threads = 2, .scratch_bytes = 64u << 10});
  const auto kernels = kernels::select_kernels(device::detect_cpu(), device::Isa::kRef);
  const uint64_t before = peak_bytes();
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto decoder = load_decoder(*checkpoint, *kernels, pool, {.rows_max = 1}, {});
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  const uint64_t weights = (*decoder)->facts().weight_bytes;
  const uint64_t grown = peak_bytes() - before;
  fmt::print("weights {}, peak grew by {}\n", base::format_bytes(weights),
             base::format_bytes(grown));
  EXPECT_GE(grown, weights / 2);  // the measure itself works
  EXPECT_LT(static_cast<double>(grown), 1.15 * static_cast<double>(weights));
  EXPECT_EQ((*decoder)->facts().parameters, 134'515'008u);
}

}  // namespace
}  // namespace bulkhead::model
