#include "kv/layout.h"

#include <gtest/gtest.h>

namespace bulkhead::kv {
namespace {

PageLayout small_model() {  // SmolLM2-135M
  PageLayout layout;
  layout.page_tokens = 64;
  layout.layers = 30;
  layout.kv_heads = 3;
  layout.head_dim = 64;
  return layout;
}

// C099
TEST(PageLayout, CountsEveryByteOfKAndV) {
  const PageLayout layout = small_model();
  // Head dimensions that are multiples of 32 are stored without padding.
  EXPECT_EQ(layout.layer_bytes(), 2u * 64 * 3 * 64 * 2);
  EXPECT_EQ(layout.page_bytes(), 30 * layout.layer_bytes());
  EXPECT_EQ(layout.token_bytes(), layout.page_bytes() / 64);
}

TEST(PageLayout, PagesAreAlignedForOddShapes) {
  for (const int32_t head_dim : {1, 8, 16, 24, 40, 80, 96, 128}) {
    for (const int32_t page_tokens : {16, 32, 64, 128}) {
      PageLayout layout;
      layout.page_tokens = page_tokens;
      layout.layers = 3;
      layout.kv_heads = 5;
      layout.head_dim = head_dim;
      EXPECT_EQ(layout.page_bytes() % 64, 0u) << head_dim << " " << page_tokens;
      EXPECT_GE(layout.token_bytes() * static_cast<size_t>(page_tokens), layout.page_bytes());
    }
  }
}

TEST(PageLayout, IdNamesFormatAndShape) {
  EXPECT_EQ(small_model().id(), "bf16/64x30x3x64");
  PageLayout other = small_model();
  other.kv_heads = 4;
  EXPECT_NE(other.id(), small_model().id());
}

TEST(PageLayout, ALatentCacheHoldsOneKeyATokenAndIndexKeysBeside) {
  PageLayout layout;  // GLM-5.2
  layout.page_tokens = 64;
  layout.layers = 78;
  layout.kv_heads = 1;
  layout.head_dim = 576;
  layout.latent_dim = 512;
  EXPECT_EQ(layout.token_bytes(), 89'856u);
  EXPECT_EQ(layout.id(), "bf16/64x78x576latent512");
  layout.index_layers = 21;
  layout.index_dim = 128;
  EXPECT_EQ(layout.token_bytes(), 89'856u + 21 * 256);
  EXPECT_EQ(layout.id(), "bf16/64x78x576latent512+21x128");
  const CacheView cache{nullptr, layout, 7};
  size_t at = 0;
  for (int32_t index = 0; index < layout.layers; ++index) {
    EXPECT_EQ(cache.layer(index).k_offset, at);
    at += cache.layer(index).k_head_stride;
  }
  for (int32_t index = 0; index < layout.index_layers; ++index) {
    EXPECT_EQ(cache.index_layer(index).k_offset, at);
    at += cache.index_layer(index).k_head_stride;
  }
  EXPECT_EQ(at, layout.page_bytes());
}

TEST(CacheView, LayersTileThePageWithoutOverlap) {
  const PageLayout layout = small_model();
  const CacheView cache{nullptr, layout, 7};
  size_t at = 0;
  for (int32_t index = 0; index < layout.layers; ++index) {
    const kernels::KvLayerView layer = cache.layer(index);
    EXPECT_EQ(layer.page_stride, layout.page_bytes());
    EXPECT_EQ(layer.k_offset, at);
    at += static_cast<size_t>(layout.kv_heads) * layer.k_head_stride;
    EXPECT_EQ(layer.v_offset, at);
    at += static_cast<size_t>(layout.kv_heads) * layer.v_head_stride;
    EXPECT_EQ(layer.page_tokens, layout.page_tokens);
    EXPECT_EQ(layer.kv_heads, layout.kv_heads);
    EXPECT_EQ(layer.head_dim, layout.head_dim);
  }
  EXPECT_EQ(at, layout.page_bytes());
}

}  // namespace
}  // namespace bulkhead::kv
