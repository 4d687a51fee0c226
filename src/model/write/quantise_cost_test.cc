// What quantising the real small model costs in memory. A process of its own: the peak is the
// process's.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/units.h"
#include "model/testing/files.h"
#include "model/write/quantise.h"

namespace bulkhead::model::write {
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

TEST(QuantiseCost, MemoryIsThatOfSomeRowsAndNotOfATensor) {
  const std::filesystem::path path = testing::smollm2_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " has not been fetched";
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would be counted";
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto plan =
      build_plan(*checkpoint, {.recipe = *parse_recipe("int4"), .rule = quant::ScaleRule::kAmax});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  uint64_t largest = 0;
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    largest = std::max(largest, tensor.elements * 2);
  }
  const testing::TemporaryDirectory out;
  device::ThreadPool pool({.threads = 2, .scratch_bytes = 0});
  const SideFiles side = {.config = "{}", .files = {}};
  const uint64_t before = peak_bytes();
  const auto errors = quantise(*checkpoint, *plan, side, out.path() / "out", pool, {});
  ASSERT_TRUE(errors.ok()) << errors.error().message;
  const uint64_t grown = peak_bytes() - before;
  fmt::print("{} written, the largest tensor {} in BF16, peak grew by {}\n",
             base::format_bytes(plan->file_bytes()), base::format_bytes(largest),
             base::format_bytes(grown));
  EXPECT_LT(grown, largest / 3);
}

}  // namespace
}  // namespace bulkhead::model::write
