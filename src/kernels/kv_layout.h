// Where one token's K and V values stand inside a page: shared by the writer and every reader.
//
// Threads: pure functions. Offsets are in Bf16 units from the start of (page, layer, head).
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/packed_weights.h"

namespace bulkhead::kernels {

inline int64_t k_panel_elements(int32_t head_dim) {
  return packed_pairs(head_dim) * kPanelColumns * 2;
}
inline int64_t v_panel_elements(int32_t page_tokens) {
  return int64_t{page_tokens} * kPanelColumns;
}

inline int64_t k_offset(int32_t head_dim, int32_t slot, int32_t dim) {
  return slot / kPanelColumns * k_panel_elements(head_dim) + dim / 2 * kPanelColumns * 2 +
         slot % kPanelColumns * 2 + dim % 2;
}
inline int64_t v_offset(int32_t page_tokens, int32_t slot, int32_t dim) {
  return dim / kPanelColumns * v_panel_elements(page_tokens) + slot / 2 * kPanelColumns * 2 +
         dim % kPanelColumns * 2 + slot % 2;
}

inline quant::Bf16* k_base(const KvLayerView& kv, int32_t page, int32_t head) {
  return reinterpret_cast<quant::Bf16*>(kv.arena + static_cast<size_t>(page) * kv.page_stride +
                                        kv.k_offset + static_cast<size_t>(head) * kv.k_head_stride);
}
inline quant::Bf16* v_base(const KvLayerView& kv, int32_t page, int32_t head) {
  return reinterpret_cast<quant::Bf16*>(kv.arena + static_cast<size_t>(page) * kv.page_stride +
                                        kv.v_offset + static_cast<size_t>(head) * kv.v_head_stride);
}

}  // namespace bulkhead::kernels
