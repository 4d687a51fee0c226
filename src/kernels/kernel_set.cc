#include "kernels/kernel_set.h"

#include <fmt/format.h>

#include "kernels/amx/gemm_tiles.h"
#include "kernels/kv_write.h"
#include "kernels/ref/ref.h"
#include "kernels/vector/drivers.h"
#include "kernels/vector/gemm_int8.h"

namespace bulkhead::kernels {
namespace {

KernelSet ref_set() {
  return {.isa = device::Isa::kRef,
          .gemm = ref::gemm,
          .gemm_group = ref::gemm_group,
          .attention = ref::attention,
          .select = ref::select,
          .kv_write = kv_write,
          .rms_norm = ref::rms_norm,
          .rope = ref::rope,
          .swiglu = ref::swiglu,
          .description = "gemm ref, attention ref, row-wise ref"};
}

// The drivers bound to one ISA's leaf functions.
template <const VectorOps& kOps>
struct Bound {
  static void gemm(const GemmArgs& args, device::ThreadPool& pool) {
    vector::gemm(kOps, args, pool);
  }
  static void gemm_group(std::span<const GemmArgs> group, device::ThreadPool& pool) {
    vector::gemm_group(kOps, group, pool);
  }
  static void attention(const AttentionArgs& args, device::ThreadPool& pool) {
    vector::attention(kOps, args, pool);
  }
  static void select(const SelectArgs& args, device::ThreadPool& pool) {
    vector::select(kOps, args, pool);
  }
  static void rms_norm(const RmsNormArgs& args, device::ThreadPool& pool) {
    vector::rms_norm(kOps, args, pool);
  }
  static void rope(const RopeArgs& args, device::ThreadPool& pool) {
    vector::rope(kOps, args, pool);
  }
  static void swiglu(const SwigluArgs& args, device::ThreadPool& pool) {
    vector::swiglu(kOps, args, pool);
  }

  static KernelSet set(device::Isa isa, std::string description) {
    return {.isa = isa,
            .gemm = gemm,
            .gemm_group = gemm_group,
            .attention = attention,
            .select = select,
            .kv_write = kv_write,
            .rms_norm = rms_norm,
            .rope = rope,
            .swiglu = swiglu,
            .description = std::move(description)};
  }
};

KernelSet avx512_set(const device::CpuFacts& cpu) {
  const char* description = "gemm avx512 12x32, attention avx512, row-wise avx512";
  if (!cpu.avx512_vbmi) return Bound<kAvx512Ops>::set(device::Isa::kAvx512, description);
  return cpu.fast_subnormals ? Bound<kAvx512VnniOps>::set(device::Isa::kAvx512, description)
                             : Bound<kAvx512VbmiOps>::set(device::Isa::kAvx512, description);
}

// Activations in bytes take the vector path, with its bits.
void amx_gemm_group(std::span<const GemmArgs> group, device::ThreadPool& pool) {
  vector::for_each_kind(group, [&](std::span<const GemmArgs> products, bool in_bytes) {
    if (in_bytes) {
      vector::gemm_group(kAvx512VbmiOps, products, pool);
    } else {
      amx::gemm_group(kAmxOps, products, pool);
    }
  });
}
void amx_gemm(const GemmArgs& args, device::ThreadPool& pool) { amx_gemm_group({&args, 1}, pool); }

KernelSet amx_set() {
  // Tiles for the weights; attention and the row-wise ops keep the vector forms and their FP32.
  KernelSet set = Bound<kAvx512VbmiOps>::set(device::Isa::kAmx,
                                             "gemm amx 32x32, attention avx512, row-wise avx512");
  set.gemm = amx_gemm;
  set.gemm_group = amx_gemm_group;
  return set;
}

}  // namespace

base::Result<KernelSet> select_kernels(const device::CpuFacts& cpu, device::Isa isa) {
  if (!device::available(cpu, isa)) {
    return base::unsupported(fmt::format("this processor ({}) lacks the {} path", cpu.model_name,
                                         device::to_string(isa)));
  }
  switch (isa) {
    case device::Isa::kRef:
      return ref_set();
    case device::Isa::kAvx2:
      return Bound<kAvx2Ops>::set(isa, "gemm avx2 6x16, attention avx2, row-wise avx2");
    case device::Isa::kAvx512:
      return avx512_set(cpu);
    case device::Isa::kAmx:
      return amx_set();
  }
  return base::unsupported(fmt::format("this build lacks the {} path", device::to_string(isa)));
}

std::vector<IsaSupport> isa_support(const device::CpuFacts& cpu) {
  std::vector<IsaSupport> all;
  for (const device::Isa isa :
       {device::Isa::kRef, device::Isa::kAvx2, device::Isa::kAvx512, device::Isa::kAmx}) {
    const base::Result<KernelSet> set = select_kernels(cpu, isa);
    all.push_back({isa, set.ok(), set.ok() ? std::string{} : set.error().message});
  }
  return all;
}

}  // namespace bulkhead::kernels
