// What one page of the cache looks like: format, slots and where each layer's K and V lie.
//
// Threads: plain values. Invariant: producer and consumer of a page use this one description; it
// travels with every handshake and cache key by its `id()`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/attention.h"

namespace bulkhead::kv {

// Index of a physical page in its pool.
using PageId = int32_t;

using PageFormat = kernels::CacheFormat;
std::string_view to_string(PageFormat format);

struct PageLayout {
  PageFormat format = PageFormat::kBf16;
  int32_t page_tokens = 64;  // multiple of 16
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  // Not 0: a latent cache, one key of head_dim values that begins with its value of so many.
  int32_t latent_dim = 0;
  // Sparse attention: layers that keep an index key of so many values beside.
  int32_t index_layers = 0;
  int32_t index_dim = 0;

  bool operator==(const PageLayout&) const = default;

  // In a page: layer by layer, K of all heads, then V of all heads unless it is latent, then (FP8)
  // the powers of two of its tokens; then the same of the index layers.
  size_t layer_bytes() const;  // a multiple of 64, as is
  size_t index_bytes() const;  // of one index layer
  size_t page_bytes() const;   // a multiple of 64
  size_t token_bytes() const;  // page_bytes / page_tokens, rounded up
  // "bf16/64x30x3x64", "fp8_e4m3/64x61x576latent512", "bf16/64x61x576latent512",
  // "bf16/64x78x576latent512+21x128"
  std::string id() const;
};

// The whole arena of a pool, as a model sees it: no allocation, no ownership.
struct CacheView {
  std::byte* arena = nullptr;
  PageLayout layout;
  int32_t pages = 0;

  kernels::KvLayerView layer(int32_t index) const;
  // The keys of index layer `index`, counted among the index layers.
  kernels::KvLayerView index_layer(int32_t index) const;
};

}  // namespace bulkhead::kv
