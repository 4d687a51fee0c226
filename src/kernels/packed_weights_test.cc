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

TEST(PackedWeights, RowsMayArriveInPieces) {
  testing::Random random(3);
  const testing::TestWeights whole(random, 50, 33);
  device::Buffer pieces = testing::aligned_bytes(packed_bytes(50, 33));
  for (int64_t row = 0; row < 50; row += 7) {
    pack_rows(whole.plain.data() + row * 33, row, std::min<int64_t>(7, 50 - row), 33,
              pieces.as<quant::Bf16>().data());
  }
  EXPECT_EQ(std::memcmp(pieces.data(), whole.bytes.data(), pieces.size()), 0);
}

TEST(PackedWeights, ARowCanBeReadBack) {
  testing::Random random(4);
  const testing::TestWeights weights(random, 35, 45);
  std::vector<float> row(45);
  for (int64_t n = 0; n < 35; ++n) {
    unpack_row(weights.packed(), n, row.data());
    for (int64_t k = 0; k < 45; ++k) {
      ASSERT_EQ(static_cast<double>(row[static_cast<size_t>(k)]), weights.at(n, k));
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
