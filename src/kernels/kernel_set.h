// The kernels of one ISA path, chosen once and handed down.
//
// Threads: immutable. Invariant: all entries are set; entries of one set agree on their numerics.
#pragma once

#include <string>
#include <vector>

#include "device/cpu.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/indexer.h"

namespace bulkhead::kernels {

struct KernelSet {
  device::Isa isa = device::Isa::kRef;
  GemmFn gemm = nullptr;
  GemmGroupFn gemm_group = nullptr;
  AttentionFn attention = nullptr;
  SelectFn select = nullptr;
  KvWriteFn kv_write = nullptr;
  RmsNormFn rms_norm = nullptr;
  RopeFn rope = nullptr;
  SwigluFn swiglu = nullptr;
  std::string description;  // for banner and metrics: "gemm avx2 6x16, attention avx2, ..."
};

// The set for `isa`. Errors tell "this processor lacks it" from "this build lacks it".
base::Result<KernelSet> select_kernels(const device::CpuFacts& cpu, device::Isa isa);

// Sets that can run here, weakest first, and the names of those that cannot with the reason: what a
// test iterates over and reports.
struct IsaSupport {
  device::Isa isa;
  bool runnable;
  std::string reason;  // empty when runnable
};
std::vector<IsaSupport> isa_support(const device::CpuFacts& cpu);

}  // namespace bulkhead::kernels
