#include "quant/int4.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace bulkhead::quant {
namespace {

// C023: no code may borrow from its neighbour; every pair of bytes is tried in either half.
TEST(Int4, EveryPairOfBytesUnpacksByTheDefinitionAndPacksBack) {
  for (uint32_t pair = 0; pair <= 0xffff; ++pair) {
    for (const uint32_t word : {pair, pair << 16, pair | (~pair << 16)}) {
      const WordCodes codes = unpack_word(word, kSequential);
      for (uint32_t i = 0; i < kCodesPerWord; ++i) {
        uint32_t expected = word;
        for (uint32_t step = 0; step < i; ++step) expected /= 16;
        ASSERT_EQ(codes[i], expected % 16) << word;
      }
      ASSERT_EQ(pack_word(codes, kSequential), word);
      ASSERT_EQ(pack_word(unpack_word(word, kAwqOrder), kAwqOrder), word);
    }
  }
}

TEST(Int4, AnAwqWordHoldsTheEvenColumnsBelowTheOddOnes) {
  EXPECT_EQ(pack_word({0, 1, 2, 3, 4, 5, 6, 7}, kAwqOrder), 0x75316420u);
  EXPECT_EQ(pack_word({0, 1, 2, 3, 4, 5, 6, 7}, kSequential), 0x76543210u);
}

TEST(Int4, AnOrderNamesEveryNibbleOnce) {
  for (NibbleOrder order : {kSequential, kAwqOrder}) {
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, kSequential);
  }
}

TEST(Int4, RandomWordsSurviveEveryOrder) {
  base::Rng rng(23);
  for (int i = 0; i < 1000; ++i) {
    const auto word = static_cast<uint32_t>(rng.bits());
    EXPECT_EQ(pack_word(unpack_word(word, kSequential), kSequential), word);
    EXPECT_EQ(pack_word(unpack_word(word, kAwqOrder), kAwqOrder), word);
  }
}

}  // namespace
}  // namespace bulkhead::quant
