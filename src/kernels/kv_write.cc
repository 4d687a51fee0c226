#include "kernels/kv_write.h"

#include <algorithm>

#include "kernels/kv_layout.h"

namespace bulkhead::kernels {
namespace {

// Enough tokens per item that a hand-out is small beside the work.
constexpr int64_t kTokensPerItem = 16;

void write_token(const KvWriteArgs& args, const AttentionSlice& slice, int32_t token) {
  const KvLayerView& kv = args.kv;
  const int32_t position = slice.position + token;
  const int32_t page = slice.pages[position / kv.page_tokens];
  const int32_t slot = position % kv.page_tokens;
  const float* k = args.k + (slice.first_row + token) * args.k_stride;
  for (int32_t head = 0; head < kv.kv_heads; ++head) {
    quant::Bf16* k_out = k_base(kv, page, head) + k_offset(kv.head_dim, slot, 0);
    for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
      k_out[dim / 2 * kPanelColumns * 2 + dim % 2] =
          quant::float_to_bf16(k[head * kv.head_dim + dim]);
    }
  }
  if (kv.latent_dim > 0) return;
  const float* v = args.v + (slice.first_row + token) * args.v_stride;
  for (int32_t head = 0; head < kv.kv_heads; ++head) {
    quant::Bf16* v_out = v_base(kv, page, head) + v_offset(kv.page_tokens, slot, 0);
    const int64_t v_panel = v_panel_elements(kv.page_tokens);
    for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
      v_out[dim / kPanelColumns * v_panel + dim % kPanelColumns * 2] =
          quant::float_to_bf16(v[head * kv.head_dim + dim]);
    }
  }
}

}  // namespace

size_t kv_k_head_bytes(int32_t page_tokens, int32_t head_dim) {
  return static_cast<size_t>(page_tokens / kPanelColumns * k_panel_elements(head_dim)) *
         sizeof(quant::Bf16);
}

size_t kv_v_head_bytes(int32_t page_tokens, int32_t head_dim) {
  return static_cast<size_t>(packed_panels(head_dim) * v_panel_elements(page_tokens)) *
         sizeof(quant::Bf16);
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
