#include "apps/bench/history/machine.h"

#include <gtest/gtest.h>

namespace bulkhead::apps {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(MachineClass, SaysProcessorCoresMemoryAndInstructionSets) {
  const std::string cpuinfo =
      "processor\t: 0\n"
      "model name\t: AMD EPYC \n"
      "flags\t\t: fpu avx avx2 avx512f avx512_bf16 avx512_bf16x\n\n"
      "processor\t: 1\n"
      "model name\t: another\n"
      "flags\t\t: amx_bf16\n";
  EXPECT_EQ(machine_class(cpuinfo, 2, 24 * kGiB - 5),
            "AMD EPYC, 2 cores, 24 GiB, avx2 avx512f avx512_bf16");
}

TEST(MachineClass, AWordThatOnlyBeginsAlikeIsAnother) {
  EXPECT_EQ(machine_class("model name: x\nflags: avx2x xavx512f", 1, kGiB), "x, 1 cores, 1 GiB, ");
}

TEST(MachineClass, WithoutAnyFactsItIsStillAText) {
  EXPECT_EQ(machine_class("", 4, 8 * kGiB), "unknown processor, 4 cores, 8 GiB, ");
  EXPECT_EQ(machine_class("model name", 4, kGiB), "unknown processor, 4 cores, 1 GiB, ");
  EXPECT_EQ(machine_class("model name:", 4, kGiB), "unknown processor, 4 cores, 1 GiB, ");
}

TEST(MachineClass, ThisMachineIsTheSameTwice) { EXPECT_EQ(machine_class(), machine_class()); }

}  // namespace
}  // namespace bulkhead::apps
