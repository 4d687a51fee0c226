// Causal attention of new tokens over a paged cache, for prefill chunks and decode rows alike.
//
// Cache layout of one page, layer and kv head (BF16), the packed order of packed_weights.h turned
// to the cache's use:
//   K  [page_tokens/16][ceil16(d/2)][16 tokens][2]     scores are a GEMM with tokens as columns
//   V  [ceil16(d)/16][page_tokens/2][16 dims][2]       outputs are a GEMM with dims as columns
// where ceil16 rounds up to a multiple of 16. page_tokens is a multiple of 16.
//
// An FP8 cache holds the same panels as lines of e4m3 codes (fp8_panels.h), half as many bytes, and
// one power of two per token for each component: K and V, shared by all kv heads, or the latent
// part and the rest of a latent key (a key that is all latent, as an index key, has only the
// first). fp8_cache.h has the rule. Codes are multiplied as they stand: K's power of two
// multiplies the finished dot product (of a latent key: s = latent sum * power, then fma(rest sum,
// power, s)), V's the token's weight after the softmax. Powers of two round nothing.
//
// With a latent cache (multi-head latent attention, absorbed form: DeepSeek-V2, arXiv 2405.04434,
// section 2.1) there is no V: the first `latent_dim` values of a token's key are its value, and the
// one key serves all query heads.
//
// Sparse attention: a row may come with the positions it attends to, ascending. They are cut at
// multiples of kKvSplit of their number, so that a row that selects all it sees has the bits of one
// that came without a selection.
//
// Order: the KV range is cut at fixed multiples of kKvSplit tokens whatever the batch, the chunk or
// the page size; each cut is a softmax of its own with FP32 running maximum, and cuts are merged in
// ascending order. A row's bits depend on its query and its cache alone. Positions beyond a row's
// own are skipped, never multiplied: pages may hold NaN there.
//
// Bound against the values that the cache holds, for n visible positions: |error| <= max|v| * (2 e
// + (n + 16) 2^-24), where e = (head_dim + 2) 2^-24 * scale * max over positions of sum |q_i k_i|
// is the error of a score.
//
// Threads: one caller at a time, the one that owns the pool.
//
// A NaN or an infinity in a component makes that component of its token NaN in an FP8 cache.
//
// Scratch: 2 MiB per worker hold the largest unit (64 rows of head_dim 256, or of a latent key of
// 1024 with its cut turned and gathered); what worker 0 has beyond that lets the cuts of a few long
// sequences be shared out over all workers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/thread_pool.h"
#include "quant/bf16.h"

namespace bulkhead::kernels {

inline constexpr int32_t kKvSplit = 256;

enum class CacheFormat : uint8_t { kBf16, kFp8E4m3 };

// Where one layer's K and V lie in the arena. Byte (page, head) of K is
//   arena + page * page_stride + k_offset + head * k_head_stride.
struct KvLayerView {
  std::byte* arena = nullptr;
  size_t page_stride = 0;  // bytes from page to page
  size_t k_offset = 0;     // bytes from a page's start to this layer's K
  size_t v_offset = 0;
  size_t k_head_stride = 0;  // bytes from kv head to kv head
  size_t v_head_stride = 0;
  int32_t page_tokens = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;    // of a key
  int32_t latent_dim = 0;  // 0: V is stored, as wide as K; else the part of a key that is its value

  CacheFormat format = CacheFormat::kBf16;
  // FP8: bytes from a page's start to this layer's powers of two (E8M0), page_tokens of the first
  // component, then as many of the second where there is one.
  size_t scale_offset = 0;

  bool one_component() const { return latent_dim > 0 && latent_dim == head_dim; }
  int32_t value_dim() const { return latent_dim > 0 ? latent_dim : head_dim; }
};

// Bytes of one head's K (or V) in one page.
size_t kv_k_head_bytes(CacheFormat format, int32_t page_tokens, int32_t head_dim);
size_t kv_v_head_bytes(CacheFormat format, int32_t page_tokens, int32_t head_dim);

// New tokens of one sequence: rows [first_row, first_row + tokens) of the step.
struct AttentionSlice {
  int64_t first_row = 0;
  int32_t tokens = 0;
  int32_t position = 0;            // of the first new token
  const int32_t* pages = nullptr;  // covers positions [0, position + tokens)
};

struct AttentionArgs {
  KvLayerView kv;
  const AttentionSlice* slices = nullptr;
  int32_t slice_count = 0;
  const float* q = nullptr;  // [rows][q_stride]: q_heads * head_dim values, rotated
  int64_t q_stride = 0;
  float* out = nullptr;  // [rows][out_stride]: q_heads * value_dim values
  int64_t out_stride = 0;
  int32_t q_heads = 0;  // a multiple of kv_heads; query head h reads kv head h/(q_heads/kv_heads)
  float scale = 1.0f;
  // Null: a row attends to all it sees. Else [rows][selection_stride]: positions that it sees,
  // ascending, selected_counts[row] of them, at least one.
  const int32_t* selected = nullptr;
  int64_t selection_stride = 0;
  const int32_t* selected_counts = nullptr;
};

using AttentionFn = void (*)(const AttentionArgs& args, device::ThreadPool& pool);

struct KvWriteArgs {
  KvLayerView kv;
  const AttentionSlice* slices = nullptr;
  int32_t slice_count = 0;
  const float* k = nullptr;  // [rows][k_stride]: kv_heads * head_dim values, rotated
  int64_t k_stride = 0;
  const float* v = nullptr;  // [rows][v_stride]; not read where the cache is latent
  int64_t v_stride = 0;
};

// Rounds K and V to the cache's format and stores them at their slots.
using KvWriteFn = void (*)(const KvWriteArgs& args, device::ThreadPool& pool);

}  // namespace bulkhead::kernels
