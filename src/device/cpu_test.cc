#include "device/cpu.h"

#include <gtest/gtest.h>

namespace bulkhead::device {
namespace {

TEST(Cpu, NamesRoundTrip) {
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    const base::Result<Isa> parsed = parse_isa(to_string(isa));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, isa);
  }
}

TEST(Cpu, AnUnknownNameIsRefusedWithTheListOfNames) {
  const base::Result<Isa> parsed = parse_isa("sse9");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, base::ErrorCode::kInvalidArgument);
  for (const char* name : {"sse9", "ref", "avx2", "avx512", "amx"}) {
    EXPECT_NE(parsed.error().message.find(name), std::string::npos) << name;
  }
}

TEST(Cpu, DetectionFindsAProcessorAndItsMemory) {
  const CpuFacts cpu = detect_cpu();
  EXPECT_FALSE(cpu.model_name.empty());
  EXPECT_GE(cpu.logical_cpus, 1u);
  EXPECT_GT(cpu.memory_bytes, uint64_t{64} << 20);
  EXPECT_TRUE(available(cpu, best_isa(cpu)));
}

TEST(Cpu, StrongerPathsImplyTheWeakerOnesTheyAreBuiltOn) {
  CpuFacts cpu;
  EXPECT_EQ(best_isa(cpu), Isa::kRef);
  cpu.avx2_fma_f16c = true;
  EXPECT_EQ(best_isa(cpu), Isa::kAvx2);
  cpu.avx512 = true;
  EXPECT_EQ(best_isa(cpu), Isa::kAvx512);
  cpu.amx_bf16 = true;
  EXPECT_EQ(best_isa(cpu), Isa::kAmx);
  cpu.avx512 = false;
  EXPECT_FALSE(available(cpu, Isa::kAmx));
}

}  // namespace
}  // namespace bulkhead::device
