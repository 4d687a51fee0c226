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

PageLayout fp8(PageLayout layout) {
  layout.format = PageFormat::kFp8E4m3;
  return layout;
}

PageLayout mini_k() {
  PageLayout layout;
  layout.page_tokens = 64;
  layout.layers = 12;
  layout.kv_heads = 1;
  layout.head_dim = 576;
  layout.latent_dim = 512;
  return layout;
}

TEST(PageLayout, Fp8IsOneByteAValueAndAPowerOfTwoForEachComponent) {
  EXPECT_EQ(fp8(small_model()).layer_bytes(), 2u * 64 * 3 * 64 + 2 * 64);
  EXPECT_EQ(fp8(small_model()).id(), "fp8_e4m3/64x30x3x64");
  EXPECT_EQ(fp8(mini_k()).layer_bytes(), 64u * 576 + 2 * 64);
  EXPECT_EQ(fp8(mini_k()).id(), "fp8_e4m3/64x12x576latent512");
  // At most 0.4 % more than a byte a value.
  const double plain = 12.0 * 64 * 576;
  EXPECT_LE(static_cast<double>(fp8(mini_k()).page_bytes()), 1.004 * plain);
  PageLayout indexed = mini_k();
  indexed.index_layers = 5;
  indexed.index_dim = 128;
  EXPECT_EQ(fp8(indexed).index_bytes(), 64u * 128 + 64);
  EXPECT_EQ(fp8(indexed).page_bytes(), fp8(mini_k()).page_bytes() + 5 * (64 * 128 + 64));
}

TEST(PageLayout, EqualBytesHoldAlmostTwiceTheTokensInFp8) {
  for (const PageLayout& layout : {small_model(), mini_k()}) {
    const double ratio =
        static_cast<double>(layout.page_bytes()) / static_cast<double>(fp8(layout).page_bytes());
    EXPECT_GE(ratio, 1.98) << layout.id();
  }
}

TEST(CacheView, Fp8LayersAndIndexLayersTileThePageWithTheirPowersBehind) {
  for (const int32_t page_tokens : {16, 64}) {
    PageLayout latent = fp8(mini_k());
    latent.index_layers = 3;
    latent.index_dim = 128;
    latent.page_tokens = page_tokens;
    PageLayout plain = fp8(small_model());
    plain.page_tokens = page_tokens;
    for (const PageLayout& layout : {plain, latent}) {
      const CacheView cache{nullptr, layout, 7};
      const auto tokens = static_cast<size_t>(page_tokens);
      size_t at = 0;
      for (int32_t index = 0; index < layout.layers + layout.index_layers; ++index) {
        const bool is_index = index >= layout.layers;
        const kernels::KvLayerView layer =
            is_index ? cache.index_layer(index - layout.layers) : cache.layer(index);
        EXPECT_EQ(layer.format, PageFormat::kFp8E4m3);
        EXPECT_EQ(layer.page_stride, layout.page_bytes());
        EXPECT_EQ(layer.k_offset, at);
        const size_t v_stride = layer.latent_dim > 0 ? 0 : layer.v_head_stride;
        at += static_cast<size_t>(layer.kv_heads) * (layer.k_head_stride + v_stride);
        EXPECT_EQ(layer.scale_offset, at);
        EXPECT_EQ(layer.one_component(), is_index);
        at += ((is_index ? 1 : 2) * tokens + 63) / 64 * 64;
      }
      EXPECT_EQ(at, layout.page_bytes());
      EXPECT_EQ(layout.page_bytes() % 64, 0u);
    }
  }
}

}  // namespace
}  // namespace bulkhead::kv
