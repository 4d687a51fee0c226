#include "serve/capacity/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead::serve {
namespace {

using ::testing::HasSubstr;

kv::PageLayout grouped() {
  kv::PageLayout layout;
  layout.page_tokens = 64;
  layout.layers = 16;
  layout.kv_heads = 8;
  layout.head_dim = 64;
  return layout;
}

kv::PageLayout latent() {
  kv::PageLayout layout;
  layout.page_tokens = 64;
  layout.layers = 61;
  layout.kv_heads = 1;
  layout.head_dim = 576;
  layout.latent_dim = 512;
  return layout;
}

model::ModelConfig heads_of(int32_t heads, int32_t kv_heads, int32_t latent_values) {
  model::ModelConfig config;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.mla.latent = latent_values;
  return config;
}

TEST(CacheRoom, HoldsWholePagesAlone) {
  const kv::PageLayout layout = grouped();
  const CacheRoom room = cache_room(layout, 3 * layout.page_bytes() + 1);
  EXPECT_EQ(room.pages, 3);
  EXPECT_EQ(room.tokens, 192);
  EXPECT_EQ(room.bytes, 3 * layout.page_bytes());
  EXPECT_EQ(cache_room(layout, layout.page_bytes() - 1).pages, 0);
}

TEST(CacheRoom, ARequestsLastPageIsItsOwn) {
  const kv::PageLayout layout = grouped();
  EXPECT_EQ(pages_of(layout, 64), 1);
  EXPECT_EQ(pages_of(layout, 65), 2);
  const CacheRoom room = cache_room(layout, 7 * layout.page_bytes());
  EXPECT_EQ(requests_at(room, layout, 65), 3);
  EXPECT_EQ(requests_at(room, layout, 64), 7);
  EXPECT_EQ(requests_at(room, layout, 7 * 64 + 1), 0);
}

TEST(CacheRoom, CountsBeyond32Bits) {
  const CacheRoom room = cache_room(grouped(), uint64_t{1} << 62);
  EXPECT_GT(room.tokens, int64_t{1} << 40);
  EXPECT_EQ(room.tokens, room.pages * 64);
}

TEST(Ranks, DivideTheHeadsOfAGroupedCacheAndNotALatent) {
  EXPECT_EQ(layout_on_rank(grouped(), 4).kv_heads, 2);
  EXPECT_EQ(layout_on_rank(grouped(), 4).page_bytes() * 4, grouped().page_bytes());
  EXPECT_EQ(layout_on_rank(grouped(), 16).kv_heads, 1);
  EXPECT_EQ(layout_on_rank(latent(), 8), latent());
  EXPECT_EQ(sharing_text(latent(), 8), "latent, whole on each of 8 ranks");
  EXPECT_EQ(sharing_text(grouped(), 4), "8 heads divided over 4 ranks");
  EXPECT_THAT(sharing_text(grouped(), 16), HasSubstr("each head on 2"));
}

TEST(Ranks, ThatDoNotDivideTheHeadsAreRefusedWithThoseThatDo) {
  EXPECT_TRUE(check_ranks(heads_of(32, 8, 0), 16).ok());
  EXPECT_TRUE(check_ranks(heads_of(64, 1, 512), 8).ok());
  const base::Status three = check_ranks(heads_of(32, 8, 0), 3);
  ASSERT_FALSE(three.ok());
  EXPECT_EQ(three.error().field, "--ranks");
  EXPECT_THAT(three.error().message, HasSubstr("1, 2, 4, 8, 16, 32"));
  EXPECT_FALSE(check_ranks(heads_of(64, 1, 512), 3).ok());
  EXPECT_FALSE(check_ranks(heads_of(6, 4, 0), 3).ok()) << "4 heads cannot be divided over 3";
}

TEST(WeightKinds, AreNamedWithTheirBytesTheLargestFirst) {
  model::ModelConfig config = heads_of(2, 1, 0);
  config.layers = 1;
  config.hidden = 128;
  config.head_dim = 64;
  config.intermediate = 1024;
  config.vocabulary = 512;
  EXPECT_EQ(weight_kinds_text(config, *model::parse_recipe("bf16")),
            "dense MLP 768.0 KiB, output head 128.0 KiB, embedding 128.0 KiB, attention 96.0 KiB, "
            "norms, biases 1.5 KiB");
  EXPECT_THAT(weight_kinds_text(config, *model::parse_recipe("int4")),
              HasSubstr("dense MLP 216.0 KiB"));
}

// 8 ranks at 2.5 an hour that write 2,192 and 1,555 tokens a second.
TEST(Cost, IsWhatTheRanksCostWhileAMillionTokensAreWritten) {
  EXPECT_NEAR(cost_per_million(2.5, 8, 2192), 2.53, 0.01);
  EXPECT_NEAR(cost_per_million(2.5, 8, 1555), 3.57, 0.01);
}

}  // namespace
}  // namespace bulkhead::serve
