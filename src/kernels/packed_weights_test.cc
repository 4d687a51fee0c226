#include "kernels/packed_weights.h"

#include <gtest/gtest.h>

#include "kernels/test_support.h"

namespace bulkhead::kernels {
namespace {

TEST(PackedWeights, EveryElementStandsWhereTheHeaderSays) {
  testing::Random random(1);
  for (const int64_t k : {1, 2, 31, 32, 33, 70}) {
    for (const int64_t n : {1, 15, 16, 17, 40}) {
      const testing::TestWeights weights(random, n, k);
      const quant::Bf16* packed = weights.packed().bf16();
      const int64_t pairs = packed_pairs(k);
      ASSERT_EQ(pairs % 16, 0);
      ASSERT_GE(pairs * 2, k);
      for (int64_t row = 0; row < n; ++row) {
        for (int64_t column = 0; column < k; ++column) {
          const int64_t at = ((row / 16) * pairs + column / 2) * 32 + row % 16 * 2 + column % 2;
          ASSERT_EQ(packed[at], weights.plain[static_cast<size_t>(row * k + column)]);
        }
      }
    }
  }
}

TEST(PackedWeights, PaddingStaysZero) {
  testing::Random random(2);
  const int64_t n = 19;
  const int64_t k = 37;
  const testing::TestWeights weights(random, n, k);
  int64_t nonzero = 0;
  for (const quant::Bf16 code : weights.bytes.as<quant::Bf16>()) nonzero += code != 0 ? 1 : 0;
  int64_t expected = 0;
  for (const quant::Bf16 code : weights.plain) expected += code != 0 ? 1 : 0;
  EXPECT_EQ(nonzero, expected);
}

TEST(PackedWeights, EveryFp8CodeAndScaleStandsWhereTheHeaderSays) {
  testing::Random random(5);
  for (const int64_t k : {1, 5, 32, 33, 127, 128, 129, 160, 300}) {
    for (const int64_t n : {1, 16, 19}) {
      const testing::TestWeights weights(random, n, k, WeightFormat::kFp8);
      const std::byte* packed = weights.packed().data;
      const int64_t groups = (k + 127) / 128;
      const int64_t lines = (k + 31) / 32 * 8;
      ASSERT_EQ(packed_bytes(WeightFormat::kFp8, n, k),
                static_cast<size_t>((n + 15) / 16 * (lines + groups) * 64));
      for (int64_t row = 0; row < n; ++row) {
        const std::byte* panel = packed + row / 16 * (lines + groups) * 64;
        for (int64_t i = 0; i < k; ++i) {
          const std::byte* group = panel + i / 128 * (33 * 64);
          const int64_t places[] = {1, 3, 0, 2};
          const auto code = group[64 + i % 128 / 4 * 64 + row % 16 * 4 + places[i % 4]];
          ASSERT_EQ(static_cast<uint8_t>(code), weights.codes[static_cast<size_t>(row * k + i)]);
          ASSERT_EQ(reinterpret_cast<const float*>(group)[row % 16],
                    weights.scales[static_cast<size_t>(row * groups + i / 128)] * 0x1p56f);
        }
      }
    }
  }
}

TEST(PackedWeights, RowsMayArriveInPieces) {
  testing::Random random(3);
  const testing::TestWeights whole(random, 50, 33);
  device::Buffer pieces = testing::aligned_bytes(packed_bytes(50, 33));
  for (int64_t row = 0; row < 50; row += 7) {
    pack_rows(whole.plain.data() + row * 33, row, std::min<int64_t>(7, 50 - row), 33,
              pieces.as<quant::Bf16>().data());
  }
  EXPECT_EQ(std::memcmp(pieces.data(), whole.bytes.data(), pieces.size()), 0);
  const testing::TestWeights fp8(random, 50, 133, WeightFormat::kFp8);
  pieces = testing::aligned_bytes(packed_bytes(WeightFormat::kFp8, 50, 133));
  for (int64_t row = 0; row < 50; row += 7) {
    pack_rows_fp8(fp8.codes.data() + row * 133, fp8.scales.data() + row * 2, row,
                  std::min<int64_t>(7, 50 - row), 133, pieces.data());
  }
  EXPECT_EQ(std::memcmp(pieces.data(), fp8.bytes.data(), pieces.size()), 0);
}

TEST(PackedWeights, ARowCanBeReadBack) {
  testing::Random random(4);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8}) {
    const testing::TestWeights weights(random, 35, 145, format);
    std::vector<float> row(145);
    for (int64_t n = 0; n < 35; ++n) {
      unpack_row(weights.packed(), n, row.data());
      for (int64_t k = 0; k < 145; ++k) {
        // A product of a code and a scale is rounded once.
        ASSERT_EQ(row[static_cast<size_t>(k)], static_cast<float>(weights.at(n, k)));
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
