// What this processor offers, and which instruction-set path is to be used.
//
// Threads: any. Invariant: an Isa is reported as available only when both the processor and the
// operating system (register state, AMX permission) grant it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bulkhead::device {

// Kernel paths, weakest first. kRef is the portable reference form of every kernel.
enum class Isa { kRef, kAvx2, kAvx512, kAmx };

std::string_view to_string(Isa isa);                 // "ref", "avx2", "avx512", "amx"
base::Result<Isa> parse_isa(std::string_view name);  // kInvalidArgument lists the names

struct CpuFacts {
  std::string model_name;     // "AMD EPYC ..."
  unsigned logical_cpus = 1;  // that this process may run on (affinity, cgroup quota)
  bool avx2_fma_f16c = false;
  bool avx512 = false;  // F, BW, VL, DQ
  bool avx512_bf16 = false;
  bool avx512_vbmi = false;      // and vnni, which every processor with it has had since 2019
  bool fast_subnormals = false;  // AMD's cores multiply them at full speed; Intel's take a detour
  bool amx_bf16 = false;  // tile and bf16, permission granted by the kernel; has avx512_vbmi too
  size_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  uint64_t memory_bytes = 0;            // physical, or the cgroup's limit where that is lower
  bool transparent_huge_pages = false;  // "always" or "madvise"
};

// Reads CPUID, XCR0, /proc and /sys; asks the kernel for AMX tiles (arch_prctl) where they exist.
CpuFacts detect_cpu();

bool available(const CpuFacts& cpu, Isa isa);
// The strongest available path.
Isa best_isa(const CpuFacts& cpu);

}  // namespace bulkhead::device
