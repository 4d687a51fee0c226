#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/fp8_panels.h"
#include "kernels/int4_panels.h"
#include "kernels/ref/ref.h"

namespace bulkhead::kernels::ref {
namespace {

float start_value(const GemmArgs& args, int64_t row, int64_t n) {
  if (args.accumulate) return args.c[row * args.c_stride + n];
  return args.bias != nullptr ? args.bias[n] : 0.0f;
}

float product_bf16(const GemmArgs& args, const float* a, int64_t n, float start) {
  const quant::Bf16* w =
      args.w.bf16() + n / kPanelColumns * packed_pairs(args.w.k) * kPanelColumns * 2;
  float sum = start;
  for (int64_t k = 0; k < args.w.k; ++k) {
    const quant::Bf16 code = w[k / 2 * kPanelColumns * 2 + n % kPanelColumns * 2 + k % 2];
    sum = std::fma(a[k], quant::bf16_to_float(code), sum);
  }
  return sum;
}

float product_fp8(const GemmArgs& args, const float* a, int64_t n, float start) {
  const std::byte* group = args.w.data + n / kPanelColumns * fp8_panel_bytes(args.w.k);
  const int64_t column = n % kPanelColumns;
  float c = start;
  for (int64_t begin = 0; begin < args.w.k; begin += kFp8GroupK, group += kFp8GroupBytes) {
    float sum = 0.0f;
    for (int64_t k = 0; k < kFp8GroupK && begin + k < args.w.k; ++k) {
      const auto code = static_cast<quant::Fp8>(group[kLineBytes + fp8_code_offset(column, k)]);
      sum = std::fma(a[begin + k], quant::e4m3_to_float(code) * kFp8SumScale, sum);
    }
    c = std::fma(sum, reinterpret_cast<const float*>(group)[column], c);
  }
  return c;
}

float product_int4(const GemmArgs& args, const float* a, int64_t n, float start) {
  const std::byte* panel = args.w.data + n / kPanelColumns * int4_panel_bytes(args.w.k);
  const int64_t column = n % kPanelColumns;
  float c = start;
  for (int64_t begin = 0; begin < args.w.k; begin += kInt4GroupK) {
    float sum = 0.0f;
    for (int64_t k = begin; k < std::min(begin + kInt4GroupK, args.w.k); ++k) {
      sum = std::fma(a[k], static_cast<float>(int4_value(panel, column, k)), sum);
    }
    c = std::fma(sum, int4_scale(panel, column, begin / kInt4GroupK), c);
  }
  return c;
}

// Of one group of activations: codes, and what they stand for in units of.
float quantise(const float* a, int64_t count, std::array<int32_t, kInt4GroupK>& codes) {
  codes.fill(0);
  int32_t bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    bits = std::max(bits, std::bit_cast<int32_t>(a[i]) & 0x7fffffff);
  }
  if (bits >= kInt8InfinityBits) return std::numeric_limits<float>::quiet_NaN();
  if (bits < kInt8LeastBits) return 0.0f;
  const auto amax = std::bit_cast<float>(bits);
  const float inverse = 127.0f / amax;
  for (int64_t i = 0; i < count; ++i) {
    codes[static_cast<size_t>(i)] = static_cast<int32_t>(std::nearbyint(a[i] * inverse));
  }
  return amax / 127.0f;
}

float product_int4_int8(const GemmArgs& args, const float* a, int64_t n, float start) {
  const std::byte* panel = args.w.data + n / kPanelColumns * int4_panel_bytes(args.w.k);
  const int64_t column = n % kPanelColumns;
  std::array<int32_t, kInt4GroupK> codes;
  float c = start;
  for (int64_t begin = 0; begin < args.w.k; begin += kInt4GroupK) {
    const int64_t count = std::min(kInt4GroupK, args.w.k - begin);
    const float scale = quantise(a + begin, count, codes);
    int32_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += codes[static_cast<size_t>(i)] * int4_value(panel, column, begin + i);
    }
    const float factor = int4_scale(panel, column, begin / kInt4GroupK) * scale;
    c = std::fma(static_cast<float>(sum), factor, c);
  }
  return c;
}

float product(const GemmArgs& args, const float* a, int64_t n, float start) {
  switch (args.w.format) {
    case WeightFormat::kBf16:
      return product_bf16(args, a, n, start);
    case WeightFormat::kFp8:
      return product_fp8(args, a, n, start);
    case WeightFormat::kInt4:
      return multiplies_bytes(args) ? product_int4_int8(args, a, n, start)
                                    : product_int4(args, a, n, start);
  }
  BH_CHECK(false, "a weight format that is multiplied");
  return 0.0f;
}

}  // namespace

void gemm(const GemmArgs& args, device::ThreadPool& pool) {
  const int64_t panels = packed_panels(args.w.n);
  pool.run(static_cast<size_t>(panels), [&](size_t item, unsigned) {
    const auto first = static_cast<int64_t>(item) * kPanelColumns;
    const int64_t last = std::min(first + kPanelColumns, args.w.n);
    for (int64_t row = 0; row < args.rows; ++row) {
      const float* a = args.a + row * args.a_stride;
      for (int64_t n = first; n < last; ++n) {
        args.c[row * args.c_stride + n] = product(args, a, n, start_value(args, row, n));
      }
    }
  });
}

void gemm_group(std::span<const GemmArgs> group, device::ThreadPool& pool) {
  for (const GemmArgs& args : group) gemm(args, pool);
}

}  // namespace bulkhead::kernels::ref
