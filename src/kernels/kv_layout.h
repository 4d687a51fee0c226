// Where one token's K and V values stand inside a page: shared by the writers and every reader.
//
// Threads: pure functions. Offsets are in bytes from the start of (page, layer, head).
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/fp8_panels.h"
#include "kernels/packed_weights.h"

namespace bulkhead::kernels {

// Lines of 64 bytes of a panel of 16 keys: k-pairs, or four k each.
inline int64_t k_lines(CacheFormat format, int32_t head_dim) {
  return format == CacheFormat::kBf16 ? packed_pairs(head_dim) : fp8_lines(head_dim);
}
inline int64_t k_panel_bytes(CacheFormat format, int32_t head_dim) {
  return k_lines(format, head_dim) * kLineBytes;
}
inline int64_t value_bytes(CacheFormat format) { return format == CacheFormat::kBf16 ? 2 : 1; }
inline int64_t v_panel_bytes(CacheFormat format, int32_t page_tokens) {
  return int64_t{page_tokens} * kPanelColumns * value_bytes(format);
}

// Inside a panel of any use: the code of (column, k).
inline int64_t code_offset(CacheFormat format, int64_t column, int64_t k) {
  return format == CacheFormat::kBf16 ? k / 2 * kLineBytes + column * 4 + k % 2 * 2
                                      : fp8_code_offset(column, k);
}
inline int64_t k_offset(const KvLayerView& kv, int32_t slot, int32_t dim) {
  return slot / kPanelColumns * k_panel_bytes(kv.format, kv.head_dim) +
         code_offset(kv.format, slot % kPanelColumns, dim);
}
inline int64_t v_offset(const KvLayerView& kv, int32_t slot, int32_t dim) {
  return dim / kPanelColumns * v_panel_bytes(kv.format, kv.page_tokens) +
         code_offset(kv.format, dim % kPanelColumns, slot);
}

inline std::byte* page_base(const KvLayerView& kv, int32_t page) {
  return kv.arena + static_cast<size_t>(page) * kv.page_stride;
}
inline std::byte* k_base(const KvLayerView& kv, int32_t page, int32_t head) {
  return page_base(kv, page) + kv.k_offset + static_cast<size_t>(head) * kv.k_head_stride;
}
inline std::byte* v_base(const KvLayerView& kv, int32_t page, int32_t head) {
  return page_base(kv, page) + kv.v_offset + static_cast<size_t>(head) * kv.v_head_stride;
}
// FP8: the powers of two of a page's tokens, component 0 or 1.
inline uint8_t* scale_codes(const KvLayerView& kv, int32_t page, int32_t component) {
  return reinterpret_cast<uint8_t*>(page_base(kv, page) + kv.scale_offset) +
         int64_t{component} * kv.page_tokens;
}

}  // namespace bulkhead::kernels
