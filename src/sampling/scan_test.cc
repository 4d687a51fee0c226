#include "sampling/scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "sampling/exp.h"

namespace bulkhead::sampling {
namespace {

std::vector<float> random_row(size_t width, uint64_t seed, double spread = 10.0) {
  base::Rng rng(seed);
  std::vector<float> row(width);
  for (float& value : row) value = static_cast<float>((rng.unit() - 0.5) * 2 * spread);
  return row;
}

TEST(ExpNonpositive, StaysWithinItsBound) {
  EXPECT_EQ(exp_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(exp_nonpositive(-88.0f), 0.0f);
  EXPECT_EQ(exp_nonpositive(-std::numeric_limits<float>::infinity()), 0.0f);
  double worst = 0.0;
  for (int i = 0; i <= 870000; ++i) {
    const float x = static_cast<float>(-i) * 1e-4f;
    if (x <= -87.0f) break;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp_nonpositive(x)) - exact) / exact);
  }
  EXPECT_LE(worst, std::ldexp(1.0, -21));
}

TEST(FindGreatest, AgreesWithASimpleScanAtEveryWidth) {
  for (size_t width = 1; width < 1100; width += width < 20 ? 1 : 37) {
    const auto row = random_row(width, width);
    const Greatest found = find_greatest(row);
    const auto expected = std::max_element(row.begin(), row.end());
    EXPECT_EQ(found.index, expected - row.begin()) << width;
    EXPECT_EQ(found.value, *expected);
    EXPECT_TRUE(found.finite);
  }
}

TEST(FindGreatest, GivesTiesToTheLowestId) {
  std::vector<float> row(1000, -1.0f);
  row[700] = row[301] = row[300] = row[999] = 2.0f;
  EXPECT_EQ(find_greatest(row).index, 300);
  std::fill(row.begin(), row.end(), 0.0f);
  EXPECT_EQ(find_greatest(row).index, 0);
}

// C176
TEST(FindGreatest, SeesEveryNonFiniteValue) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (size_t at = 0; at < 600; at += 7) {
      auto row = random_row(600, 3);
      row[at] = bad;
      EXPECT_FALSE(find_greatest(row).finite) << bad << " at " << at;
    }
  }
}

TEST(FindGreatest, KeepsHugeFiniteValuesFinite) {
  std::vector<float> row(512, std::numeric_limits<float>::max());
  row[3] = std::numeric_limits<float>::lowest();
  EXPECT_TRUE(find_greatest(row).finite);
}

TEST(LogSumExp, AgreesWithDoublePrecision) {
  for (const size_t width : {1u, 255u, 256u, 257u, 5000u}) {
    const auto row = random_row(width, width + 9);
    const float greatest = find_greatest(row).value;
    double mass = 0.0;
    for (const float value : row) mass += std::exp(static_cast<double>(value) - greatest);
    EXPECT_NEAR(log_sum_exp(row, greatest), greatest + std::log(mass), 2e-6) << width;
  }
}

TEST(Weigh, AgreesWithDoublePrecisionAndItsBlocksAddUp) {
  for (const size_t width : {1u, 255u, 256u, 257u, 1000u}) {
    const auto row = random_row(width, width + 1);
    const float greatest = find_greatest(row).value;
    std::vector<float> exponents(width);
    std::vector<float> weights(width);
    std::vector<double> masses((width + kWeighBlock - 1) / kWeighBlock);
    weigh(row, greatest, 0.7f, exponents, weights, masses);
    double total = 0.0;
    for (size_t i = 0; i < width; ++i) {
      const double exact = std::exp((static_cast<double>(row[i]) - greatest) / 0.7);
      EXPECT_NEAR(weights[i], exact, 3e-6 * exact + 1e-37);
      total += exact;
    }
    double mass = 0.0;
    for (const double block : masses) mass += block;
    EXPECT_NEAR(mass, total, 1e-5 * total);
    for (const float floor : {0.0f, -3.0f, -9.0f, -100.0f}) {
      size_t count = 0;
      double expected = 0.0;
      for (size_t i = 0; i < width; ++i) {
        if (exponents[i] < floor) continue;
        ++count;
        expected += static_cast<double>(weights[i]);
      }
      const Above above = measure_above(exponents, weights, floor);
      EXPECT_EQ(above.count, count);
      EXPECT_NEAR(above.mass, expected, 1e-5 * expected);
    }
  }
}

TEST(FindTop, ListsTheGreatestWithTiesByLowestId) {
  auto row = random_row(3000, 17, 2.0);
  for (float& value : row) value = std::round(value * 8.0f) / 8.0f;  // many ties
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
  std::vector<wire::TokenLogprob> top(20);
  find_top(row, top);
  for (size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(top[i].id, static_cast<wire::TokenId>(order[i]));
    EXPECT_EQ(top[i].logprob, row[order[i]]);
  }
}

}  // namespace
}  // namespace bulkhead::sampling
