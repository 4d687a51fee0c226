#include "kv/layout.h"

#include <fmt/format.h>

#include "base/check.h"

namespace bulkhead::kv {

std::string_view to_string(PageFormat format) {
  switch (format) {
    case PageFormat::kBf16:
      return "bf16";
    case PageFormat::kFp8E4m3:
      return "fp8_e4m3";
  }
  return "unknown";
}

namespace {

size_t heads(const PageLayout& layout) { return static_cast<size_t>(layout.kv_heads); }

size_t k_bytes(const PageLayout& layout) {
  return heads(layout) *
         kernels::kv_k_head_bytes(layout.format, layout.page_tokens, layout.head_dim);
}

size_t v_bytes(const PageLayout& layout) {
  if (layout.latent_dim > 0) return 0;
  return heads(layout) *
         kernels::kv_v_head_bytes(layout.format, layout.page_tokens, layout.head_dim);
}

// The powers of two of one layer's tokens, so long that what follows is aligned.
size_t scale_bytes(const PageLayout& layout, size_t components) {
  if (layout.format == PageFormat::kBf16) return 0;
  return (components * static_cast<size_t>(layout.page_tokens) + 63) / 64 * 64;
}

size_t index_key_bytes(const PageLayout& layout) {
  return kernels::kv_k_head_bytes(layout.format, layout.page_tokens, layout.index_dim);
}

}  // namespace

size_t PageLayout::layer_bytes() const {
  return k_bytes(*this) + v_bytes(*this) + scale_bytes(*this, latent_dim == head_dim ? 1 : 2);
}

size_t PageLayout::index_bytes() const { return index_key_bytes(*this) + scale_bytes(*this, 1); }

size_t PageLayout::page_bytes() const {
  return static_cast<size_t>(layers) * layer_bytes() +
         static_cast<size_t>(index_layers) * index_bytes();
}

size_t PageLayout::token_bytes() const {
  const auto tokens = static_cast<size_t>(page_tokens);
  return (page_bytes() + tokens - 1) / tokens;
}

std::string PageLayout::id() const {
  std::string text = fmt::format("{}/{}x{}x", to_string(format), page_tokens, layers);
  text += latent_dim > 0 ? fmt::format("{}latent{}", head_dim, latent_dim)
                         : fmt::format("{}x{}", kv_heads, head_dim);
  if (index_layers > 0) text += fmt::format("+{}x{}", index_layers, index_dim);
  return text;
}

kernels::KvLayerView CacheView::layer(int32_t index) const {
  BH_CHECK(index >= 0 && index < layout.layers, "a layer of the cache's layout");
  kernels::KvLayerView view;
  view.arena = arena;
  view.page_stride = layout.page_bytes();
  view.k_offset = static_cast<size_t>(index) * layout.layer_bytes();
  view.v_offset = view.k_offset + k_bytes(layout);
  view.k_head_stride = kernels::kv_k_head_bytes(layout.format, layout.page_tokens, layout.head_dim);
  view.v_head_stride = kernels::kv_v_head_bytes(layout.format, layout.page_tokens, layout.head_dim);
  view.page_tokens = layout.page_tokens;
  view.kv_heads = layout.kv_heads;
  view.head_dim = layout.head_dim;
  view.latent_dim = layout.latent_dim;
  view.format = layout.format;
  view.scale_offset = view.v_offset + v_bytes(layout);
  return view;
}

kernels::KvLayerView CacheView::index_layer(int32_t index) const {
  BH_CHECK(index >= 0 && index < layout.index_layers, "an index layer of the cache's layout");
  kernels::KvLayerView view;
  view.arena = arena;
  view.page_stride = layout.page_bytes();
  view.k_offset = static_cast<size_t>(layout.layers) * layout.layer_bytes() +
                  static_cast<size_t>(index) * layout.index_bytes();
  view.k_head_stride = index_key_bytes(layout);
  view.page_tokens = layout.page_tokens;
  view.kv_heads = 1;
  view.head_dim = layout.index_dim;
  view.latent_dim = layout.index_dim;
  view.format = layout.format;
  view.scale_offset = view.k_offset + view.k_head_stride;
  return view;
}

}  // namespace bulkhead::kv
