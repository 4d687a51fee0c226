#include "bench/op_timer.h"

#include <chrono>
#include <utility>
#include <vector>

#include "kernels/bench/peaks.h"

namespace bulkhead::bench {
namespace {

using Clock = std::chrono::steady_clock;

// The kernel set under the timers. The timed functions have no place for a context of their own.
struct Timed {
  kernels::KernelSet inner;
  std::array<OpTotal, kOps> totals{{{"gemm"},
                                    {"gemm_group (experts, heads)"},
                                    {"attention"},
                                    {"select"},
                                    {"kv_write"},
                                    {"rms_norm"},
                                    {"rope"},
                                    {"swiglu"}}};
};
Timed& timed() {
  static Timed state;
  return state;
}

template <typename Call>
void measure(Op op, double operations, double bytes, Call&& call) {
  const Clock::time_point start = Clock::now();
  call();
  OpTotal& total = timed().totals[op];
  total.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  total.operations += operations;
  total.bytes += bytes;
}

double product_operations(const kernels::GemmArgs& args) {
  return 2.0 * static_cast<double>(args.rows) * static_cast<double>(args.w.n) *
         static_cast<double>(args.w.k);
}
double weight_bytes(const kernels::GemmArgs& args) {
  if (args.rows == 0) return 0.0;
  return static_cast<double>(kernels::packed_bytes(args.w.format, args.w.n, args.w.k));
}

void timed_gemm(const kernels::GemmArgs& args, device::ThreadPool& pool) {
  measure(kGemm, product_operations(args), weight_bytes(args),
          [&] { timed().inner.gemm(args, pool); });
}

void timed_group(std::span<const kernels::GemmArgs> group, device::ThreadPool& pool) {
  double operations = 0.0;
  double bytes = 0.0;
  for (const kernels::GemmArgs& args : group) {
    operations += product_operations(args);
    bytes += weight_bytes(args);
  }
  measure(kGroup, operations, bytes, [&] { timed().inner.gemm_group(group, pool); });
}

void timed_attention(const kernels::AttentionArgs& args, device::ThreadPool& pool) {
  const double widths = args.kv.head_dim + args.kv.value_dim();
  double pairs = 0.0;
  double tokens = 0.0;
  for (int32_t s = 0; s < args.slice_count; ++s) {
    const kernels::AttentionSlice& slice = args.slices[s];
    for (int32_t t = 0; t < slice.tokens; ++t) {
      pairs += args.selected != nullptr ? args.selected_counts[slice.first_row + t]
                                        : slice.position + t + 1;
    }
    tokens += slice.position + slice.tokens;
  }
  // Exponents of FP8 pages, two bytes a token, not counted.
  const double k_bytes = static_cast<double>(args.kv.k_head_stride) / args.kv.page_tokens;
  const double v_bytes = static_cast<double>(args.kv.v_head_stride) / args.kv.page_tokens;
  const double stored = args.kv.latent_dim > 0 ? k_bytes : k_bytes + v_bytes;
  measure(kAttention, 2.0 * pairs * widths * args.q_heads, tokens * stored * args.kv.kv_heads,
          [&] { timed().inner.attention(args, pool); });
}

void timed_select(const kernels::SelectArgs& args, device::ThreadPool& pool) {
  measure(kSelect, 0.0, 0.0, [&] { timed().inner.select(args, pool); });
}
void timed_kv_write(const kernels::KvWriteArgs& args, device::ThreadPool& pool) {
  measure(kKvWrite, 0.0, 0.0, [&] { timed().inner.kv_write(args, pool); });
}
void timed_norm(const kernels::RmsNormArgs& args, device::ThreadPool& pool) {
  measure(kNorm, 0.0, 0.0, [&] { timed().inner.rms_norm(args, pool); });
}
void timed_rope(const kernels::RopeArgs& args, device::ThreadPool& pool) {
  measure(kRope, 0.0, 0.0, [&] { timed().inner.rope(args, pool); });
}
void timed_swiglu(const kernels::SwigluArgs& args, device::ThreadPool& pool) {
  measure(kSwiglu, 0.0, 0.0, [&] { timed().inner.swiglu(args, pool); });
}

}  // namespace

kernels::KernelSet timed_set(kernels::KernelSet inner) {
  timed().inner = inner;
  kernels::KernelSet out = std::move(inner);
  out.gemm = timed_gemm;
  out.gemm_group = timed_group;
  out.attention = timed_attention;
  out.select = timed_select;
  out.kv_write = timed_kv_write;
  out.rms_norm = timed_norm;
  out.rope = timed_rope;
  out.swiglu = timed_swiglu;
  return out;
}

std::span<const OpTotal> op_totals() { return timed().totals; }

void reset_op_totals() {
  for (OpTotal& op : timed().totals) op.seconds = op.operations = op.bytes = 0.0;
}

Peaks measure_peaks(device::Isa isa, device::ThreadPool& pool) {
  constexpr int kRounds = 5;
  const kernels::VectorOps& ops =
      isa == device::Isa::kAvx2 ? kernels::kAvx2Ops : kernels::kAvx512Ops;
  const std::vector<float> memory(size_t{128} << 20, 1.0f);
  std::vector<double> operations;
  std::vector<double> bytes;
  operations.reserve(kRounds);
  bytes.reserve(kRounds);
  for (int i = 0; i < kRounds; ++i) {
    operations.push_back(isa == device::Isa::kAmx ? kernels::tile_rate(kernels::kAmxOps, pool)
                                                  : kernels::fma_rate(ops, pool));
    bytes.push_back(kernels::read_rate(ops, memory, pool));
  }
  return {kernels::spread_of(operations).median, kernels::spread_of(bytes).median};
}

}  // namespace bulkhead::bench
