// What one code of a cache stands for, in the arithmetic of every path.
//
// Threads: pure functions.
#pragma once

#include <cstring>

#include "kernels/kv_layout.h"
#include "quant/bf16.h"
#include "quant/fp8.h"

namespace bulkhead::kernels::ref {

// FP8: 2^-56 times the code's value (fp8_panels.h).
inline float code_value(CacheFormat format, const std::byte* at) {
  if (format == CacheFormat::kFp8E4m3) {
    return quant::e4m3_to_float(static_cast<quant::Fp8>(*at)) * kFp8SumScale;
  }
  quant::Bf16 code;
  std::memcpy(&code, at, sizeof(code));
  return quant::bf16_to_float(code);
}

// FP8: the token's power of two, and what a sum of code_value()s is multiplied by to have it in.
inline float power_of(const KvLayerView& kv, int32_t page, int32_t slot, int32_t component) {
  return quant::e8m0_to_float(scale_codes(kv, page, component)[slot]);
}
inline float score_factor(const KvLayerView& kv, int32_t page, int32_t slot, int32_t component) {
  return power_of(kv, page, slot, component) * kFp8Rescale;
}

}  // namespace bulkhead::kernels::ref
