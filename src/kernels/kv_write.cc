#include "kernels/kv_write.h"

#include <algorithm>
#include <cstring>

#include "kernels/fp8_cache.h"
#include "kernels/kv_layout.h"

namespace bulkhead::kernels {
namespace {

// Enough tokens per item that a hand-out is small beside the work.
constexpr int64_t kTokensPerItem = 16;

void store_bf16(std::byte* at, float value) {
  const quant::Bf16 code = quant::float_to_bf16(value);
  std::memcpy(at, &code, sizeof(code));
}

struct Slot {
  const KvLayerView& kv;
  int32_t page;
  int32_t slot;
};

void write_bf16(const Slot& at, const float* k, const float* v) {
  const KvLayerView& kv = at.kv;
  for (int32_t head = 0; head < kv.kv_heads; ++head) {
    std::byte* k_out = k_base(kv, at.page, head) + k_offset(kv, at.slot, 0);
    for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
      store_bf16(k_out + dim / 2 * kLineBytes + dim % 2 * 2, k[head * kv.head_dim + dim]);
    }
  }
  if (kv.latent_dim > 0) return;
  const int64_t v_panel = v_panel_bytes(kv.format, kv.page_tokens);
  for (int32_t head = 0; head < kv.kv_heads; ++head) {
    std::byte* v_out = v_base(kv, at.page, head) + v_offset(kv, at.slot, 0);
    for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
      store_bf16(v_out + dim / kPanelColumns * v_panel + dim % kPanelColumns * 4,
                 v[head * kv.head_dim + dim]);
    }
  }
}

// The power of two of `count` values, stored for component `component`.
uint8_t write_power(const Slot& at, int32_t component, const float* values, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
  }
  const uint8_t power = power_code(most);
  scale_codes(at.kv, at.page, component)[at.slot] = power;
  return power;
}

quant::Fp8 encode(float value, uint8_t power) {
  return power == kNanPower ? quant::Fp8{0} : quant::float_to_e4m3(value * inverse_power(power));
}

// Values [begin, end) of a key.
void write_key_fp8(const Slot& at, int32_t head, const float* k, int32_t begin, int32_t end,
                   uint8_t power) {
  std::byte* out = k_base(at.kv, at.page, head);
  for (int32_t dim = begin; dim < end; ++dim) {
    out[k_offset(at.kv, at.slot, dim)] = static_cast<std::byte>(encode(k[dim], power));
  }
}

void write_fp8(const Slot& at, const float* k, const float* v) {
  const KvLayerView& kv = at.kv;
  if (kv.latent_dim > 0) {
    write_key_fp8(at, 0, k, 0, kv.latent_dim, write_power(at, 0, k, kv.latent_dim));
    if (kv.one_component()) return;
    const int32_t rest = kv.head_dim - kv.latent_dim;
    write_key_fp8(at, 0, k, kv.latent_dim, kv.head_dim,
                  write_power(at, 1, k + kv.latent_dim, rest));
    return;
  }
  const int64_t count = int64_t{kv.kv_heads} * kv.head_dim;
  const uint8_t k_power = write_power(at, 0, k, count);
  const uint8_t v_power = write_power(at, 1, v, count);
  for (int32_t head = 0; head < kv.kv_heads; ++head) {
    write_key_fp8(at, head, k + head * kv.head_dim, 0, kv.head_dim, k_power);
    std::byte* out = v_base(kv, at.page, head);
    for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
      out[v_offset(kv, at.slot, dim)] =
          static_cast<std::byte>(encode(v[head * kv.head_dim + dim], v_power));
    }
  }
}

void write_token(const KvWriteArgs& args, const AttentionSlice& slice, int32_t token) {
  const KvLayerView& kv = args.kv;
  const int32_t position = slice.position + token;
  const Slot at{kv, slice.pages[position / kv.page_tokens], position % kv.page_tokens};
  const float* k = args.k + (slice.first_row + token) * args.k_stride;
  const float* v = kv.latent_dim > 0 ? nullptr : args.v + (slice.first_row + token) * args.v_stride;
  kv.format == CacheFormat::kBf16 ? write_bf16(at, k, v) : write_fp8(at, k, v);
}

}  // namespace

size_t kv_k_head_bytes(CacheFormat format, int32_t page_tokens, int32_t head_dim) {
  return static_cast<size_t>(page_tokens / kPanelColumns * k_panel_bytes(format, head_dim));
}

size_t kv_v_head_bytes(CacheFormat format, int32_t page_tokens, int32_t head_dim) {
  return static_cast<size_t>(packed_panels(head_dim) * v_panel_bytes(format, page_tokens));
}

void kv_write(const KvWriteArgs& args, device::ThreadPool& pool) {
  int64_t tokens = 0;
  for (int32_t s = 0; s < args.slice_count; ++s) tokens += args.slices[s].tokens;
  const int64_t items = (tokens + kTokensPerItem - 1) / kTokensPerItem;
  pool.run(static_cast<size_t>(items), [&](size_t item, unsigned) {
    int64_t skip = static_cast<int64_t>(item) * kTokensPerItem;
    int64_t left = std::min(kTokensPerItem, tokens - skip);
    for (int32_t s = 0; s < args.slice_count && left > 0; ++s) {
      const AttentionSlice& slice = args.slices[s];
      for (int64_t token = skip; token < slice.tokens && left > 0; ++token, --left) {
        write_token(args, slice, static_cast<int32_t>(token));
      }
      skip = std::max<int64_t>(0, skip - slice.tokens);
    }
  });
}

}  // namespace bulkhead::kernels
