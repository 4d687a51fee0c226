#include "kernels/kernel_set.h"

#include <gtest/gtest.h>

#include "kernels/test_support.h"

namespace bulkhead::kernels {
namespace {

TEST(KernelSet, EveryEntryOfARunnableSetIsThere) {
  const device::CpuFacts cpu = device::detect_cpu();
  for (const IsaSupport& path : isa_support(cpu)) {
    if (!path.runnable) {
      EXPECT_FALSE(path.reason.empty());
      std::printf("NOT RUN: %s\n", path.reason.c_str());
      continue;
    }
    const KernelSet set = *select_kernels(cpu, path.isa);
    EXPECT_EQ(set.isa, path.isa);
    EXPECT_NE(set.gemm, nullptr);
    EXPECT_NE(set.attention, nullptr);
    EXPECT_NE(set.kv_write, nullptr);
    EXPECT_NE(set.rms_norm, nullptr);
    EXPECT_NE(set.rope, nullptr);
    EXPECT_NE(set.swiglu, nullptr);
    EXPECT_NE(set.description.find(device::to_string(path.isa)), std::string::npos);
  }
}

// C217
TEST(KernelSet, APathTheProcessorLacksIsRefusedByName) {
  device::CpuFacts old;
  old.model_name = "an old one";
  EXPECT_TRUE(select_kernels(old, device::Isa::kRef).ok());
  for (const device::Isa isa : {device::Isa::kAvx2, device::Isa::kAvx512, device::Isa::kAmx}) {
    const base::Result<KernelSet> set = select_kernels(old, isa);
    ASSERT_FALSE(set.ok());
    EXPECT_EQ(set.error().code, base::ErrorCode::kUnsupported);
    EXPECT_NE(set.error().message.find("this processor"), std::string::npos);
    EXPECT_NE(set.error().message.find(device::to_string(isa)), std::string::npos);
  }
}

TEST(KernelSet, ThePathsAreListedWeakestFirst) {
  const std::vector<IsaSupport> all = isa_support(device::detect_cpu());
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].isa, device::Isa::kRef);
  EXPECT_TRUE(all[0].runnable);
  EXPECT_EQ(all[3].isa, device::Isa::kAmx);
}

}  // namespace
}  // namespace bulkhead::kernels
