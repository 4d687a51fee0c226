#include "model/block_formats.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "quant/bf16.h"
#include "quant/f16.h"

namespace bulkhead::model {
namespace {

// The layouts, in bytes from the start of a block (f16 scales are little-endian):
//   Q4_0  d:2                nibbles:16                    d * (q - 8)
//   Q4_1  d:2 m:2            nibbles:16                    d * q + m
//   Q5_0  d:2      high:4    nibbles:16                    d * (q - 16)
//   Q5_1  d:2 m:2  high:4    nibbles:16                    d * q + m
//   Q8_0  d:2                bytes:32                      d * q
//   Q4_K  d:2 dmin:2 scales:12          nibbles:128        (d * s) * q - (dmin * m)
//   Q5_K  d:2 dmin:2 scales:12 high:32  nibbles:128        (d * s) * q - (dmin * m)
//   Q6_K  low:128 high:64 scales:16 d:2                    (d * s) * (q - 32)
// In the 32-element formats the low nibbles are elements 0-15 and the high ones 16-31.
constexpr size_t kHalf = 16;
constexpr size_t kSuper = 256;

float f16_at(const uint8_t* bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return quant::f16_to_float(bits);
}

uint32_t u32_at(const uint8_t* bytes) {
  uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

void decode_f32(const uint8_t* in, float* out) { std::memcpy(out, in, sizeof(float)); }
void decode_f16(const uint8_t* in, float* out) { *out = f16_at(in); }
void decode_bf16(const uint8_t* in, float* out) {
  uint16_t bits = 0;
  std::memcpy(&bits, in, sizeof(bits));
  *out = quant::bf16_to_float(bits);
}

void decode_q4_0(const uint8_t* in, float* out) {
  const float d = f16_at(in);
  for (size_t i = 0; i < kHalf; ++i) {
    out[i] = d * static_cast<float>((in[2 + i] & 15) - 8);
    out[i + kHalf] = d * static_cast<float>((in[2 + i] >> 4) - 8);
  }
}

void decode_q4_1(const uint8_t* in, float* out) {
  const float d = f16_at(in);
  const float m = f16_at(in + 2);
  for (size_t i = 0; i < kHalf; ++i) {
    out[i] = d * static_cast<float>(in[4 + i] & 15) + m;
    out[i + kHalf] = d * static_cast<float>(in[4 + i] >> 4) + m;
  }
}

// Bit i of `high` is the fifth bit of element i.
int five_bits(int nibble, uint32_t high, size_t i) {
  return nibble | static_cast<int>(((high >> i) & 1u) << 4);
}

void decode_q5_0(const uint8_t* in, float* out) {
  const float d = f16_at(in);
  const uint32_t high = u32_at(in + 2);
  for (size_t i = 0; i < kHalf; ++i) {
    out[i] = d * static_cast<float>(five_bits(in[6 + i] & 15, high, i) - 16);
    out[i + kHalf] = d * static_cast<float>(five_bits(in[6 + i] >> 4, high, i + kHalf) - 16);
  }
}

void decode_q5_1(const uint8_t* in, float* out) {
  const float d = f16_at(in);
  const float m = f16_at(in + 2);
  const uint32_t high = u32_at(in + 4);
  for (size_t i = 0; i < kHalf; ++i) {
    out[i] = d * static_cast<float>(five_bits(in[8 + i] & 15, high, i)) + m;
    out[i + kHalf] = d * static_cast<float>(five_bits(in[8 + i] >> 4, high, i + kHalf)) + m;
  }
}

void decode_q8_0(const uint8_t* in, float* out) {
  const float d = f16_at(in);
  for (size_t i = 0; i < 2 * kHalf; ++i) {
    out[i] = d * static_cast<float>(static_cast<int8_t>(in[2 + i]));
  }
}

struct ScaleAndMin {
  float scale;
  float min;
};

// Group j of 8: six-bit scale and minimum out of the 12 packed bytes.
ScaleAndMin scale_and_min(const uint8_t* packed, size_t j) {
  if (j < 4) {
    return {static_cast<float>(packed[j] & 63), static_cast<float>(packed[j + 4] & 63)};
  }
  return {static_cast<float>((packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4)),
          static_cast<float>((packed[j + 4] >> 4) | ((packed[j] >> 6) << 4))};
}

// Q4_K and Q5_K: 8 groups of 32; groups 2j and 2j+1 share 32 bytes of nibbles, low ones first.
// `high` (or null) holds the fifth bits: bit g of byte i belongs to element i of group g.
void decode_k_groups(const uint8_t* in, const uint8_t* high, const uint8_t* nibbles, float* out) {
  const float d = f16_at(in);
  const float dmin = f16_at(in + 2);
  for (size_t group = 0; group < 8; ++group) {
    const ScaleAndMin sm = scale_and_min(in + 4, group);
    const float scale = d * sm.scale;
    const float min = dmin * sm.min;
    const uint8_t* bytes = nibbles + group / 2 * 32;
    const int shift = group % 2 == 0 ? 0 : 4;
    for (size_t i = 0; i < 32; ++i) {
      int code = (bytes[i] >> shift) & 15;
      if (high != nullptr) code |= ((high[i] >> group) & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(code) - min;
    }
  }
}

void decode_q4_k(const uint8_t* in, float* out) { decode_k_groups(in, nullptr, in + 16, out); }
void decode_q5_k(const uint8_t* in, float* out) { decode_k_groups(in, in + 16, in + 48, out); }

// Two halves of 128, each of four runs of 32: run r takes nibbles of the low bytes (runs 0, 1: low
// nibble; 2, 3: high nibble) and bits 2r, 2r+1 of the high bytes. One scale per 16 elements.
void decode_q6_k(const uint8_t* in, float* out) {
  const uint8_t* scales = in + 192;
  const float d = f16_at(in + 208);
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* low = in + half * 64;
    const uint8_t* high = in + 128 + half * 32;
    for (size_t run = 0; run < 4; ++run) {
      for (size_t i = 0; i < 32; ++i) {
        const int nibble = (low[run % 2 * 32 + i] >> (run / 2 * 4)) & 15;
        const int code = (nibble | (((high[i] >> (run * 2)) & 3) << 4)) - 32;
        const auto scale = static_cast<int8_t>(scales[half * 8 + run * 2 + i / 16]);
        out[half * 128 + run * 32 + i] = (d * static_cast<float>(scale)) * static_cast<float>(code);
      }
    }
  }
}

template <size_t kElements, size_t kBytes, void (*kDecode)(const uint8_t*, float*)>
void decode_all(const uint8_t* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += kElements, in += kBytes) kDecode(in, &out[i]);
}

}  // namespace

void decode_elements(TensorType type, std::span<const std::byte> source, std::span<float> out) {
  const TypeUnit unit = unit_of(type);
  BH_CHECK(
      out.size() % unit.elements == 0 && source.size() == out.size() / unit.elements * unit.bytes,
      "decode_elements: source and out do not match");
  const auto* in = reinterpret_cast<const uint8_t*>(source.data());
  switch (type) {
    case TensorType::kF32:
      return decode_all<1, 4, decode_f32>(in, out);
    case TensorType::kF16:
      return decode_all<1, 2, decode_f16>(in, out);
    case TensorType::kBf16:
      return decode_all<1, 2, decode_bf16>(in, out);
    case TensorType::kQ4_0:
      return decode_all<32, 18, decode_q4_0>(in, out);
    case TensorType::kQ4_1:
      return decode_all<32, 20, decode_q4_1>(in, out);
    case TensorType::kQ5_0:
      return decode_all<32, 22, decode_q5_0>(in, out);
    case TensorType::kQ5_1:
      return decode_all<32, 24, decode_q5_1>(in, out);
    case TensorType::kQ8_0:
      return decode_all<32, 34, decode_q8_0>(in, out);
    case TensorType::kQ4_K:
      return decode_all<kSuper, 144, decode_q4_k>(in, out);
    case TensorType::kQ5_K:
      return decode_all<kSuper, 176, decode_q5_k>(in, out);
    case TensorType::kQ6_K:
      return decode_all<kSuper, 210, decode_q6_k>(in, out);
    default:
      BH_CHECK(false, "decode_elements: not a weight type");
  }
}

}  // namespace bulkhead::model
