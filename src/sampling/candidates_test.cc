#include "sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "sampling/exp.h"

namespace bulkhead::sampling {
namespace {

constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

struct Row {
  std::vector<float> exponents;
  std::vector<float> weights;
};

// `step`: 0 for continuous values, otherwise values on a grid, so that ties abound.
Row random_row(size_t width, uint64_t seed, float spread, float step = 0.0f) {
  base::Rng rng(seed);
  Row row;
  for (size_t i = 0; i < width; ++i) {
    float value = -static_cast<float>(rng.unit()) * spread;
    if (step > 0.0f) value = std::round(value / step) * step;
    row.exponents.push_back(value);
  }
  row.exponents[rng.below(width)] = 0.0f;
  for (const float value : row.exponents) row.weights.push_back(exp_nonpositive(value));
  return row;
}

// Ids by falling weight, ties by id: the order that top_k and top_p speak of.
std::vector<int32_t> sorted_ids(const Row& row) {
  std::vector<int32_t> ids(row.exponents.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const float x = row.exponents[static_cast<size_t>(a)];
    const float y = row.exponents[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::erase_if(ids, [&](int32_t id) { return row.weights[static_cast<size_t>(id)] == 0.0f; });
  return ids;
}

std::vector<int32_t> kept_ids(const Candidates& candidates) {
  std::vector<int32_t> ids;
  for (const Candidate& candidate : candidates.kept()) ids.push_back(candidate.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<int32_t> first_sorted(std::vector<int32_t> ids, size_t count) {
  ids.resize(std::min(count, ids.size()));
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Candidates, KeepCountKeepsExactlyTheHeaviest) {
  for (const float spread : {0.001f, 1.0f, 20.0f, 200.0f}) {
    for (const float step : {0.0f, 0.25f}) {
      const Row row = random_row(2000, 5, spread, step);
      Candidates candidates(2000);
      for (const size_t count : {1u, 2u, 7u, 40u, 500u, 1999u, 2000u, 5000u}) {
        candidates.assign(row.exponents, row.weights, kNoFloor);
        candidates.keep_count(count);
        EXPECT_EQ(kept_ids(candidates), first_sorted(sorted_ids(row), count))
            << spread << " " << step << " " << count;
      }
    }
  }
}

TEST(Candidates, KeepMassKeepsTheSmallestSetOfThatWeight) {
  for (const float spread : {0.001f, 1.0f, 20.0f, 200.0f}) {
    for (const float step : {0.0f, 0.25f}) {
      const Row row = random_row(2000, 6, spread, step);
      const auto order = sorted_ids(row);
      double total = 0.0;
      for (const float weight : row.weights) total += static_cast<double>(weight);
      Candidates candidates(2000);
      for (const double share : {1e-9, 0.1, 0.5, 0.9, 0.999}) {
        candidates.assign(row.exponents, row.weights, kNoFloor);
        candidates.keep_mass(share * candidates.mass());
        const size_t kept = candidates.kept().size();
        EXPECT_EQ(kept_ids(candidates), first_sorted(order, kept));
        double before = 0.0;  // of all kept tokens but the lightest
        for (size_t i = 0; i + 1 < kept; ++i) {
          before += static_cast<double>(row.weights[static_cast<size_t>(order[i])]);
        }
        const double all =
            before + static_cast<double>(row.weights[static_cast<size_t>(order[kept - 1])]);
        EXPECT_LT(before, share * total * (1 + 1e-12));
        EXPECT_GE(all, share * total * (1 - 1e-12));
      }
    }
  }
}

TEST(Candidates, KeepMassWorksOnWhatKeepCountLeft) {
  Candidates candidates(4);
  const std::vector<float> weights{1.0f, 0.5f, 0.25f, 0.25f};
  std::vector<float> exponents;
  for (const float weight : weights) exponents.push_back(std::log(weight));
  candidates.assign(exponents, weights, kNoFloor);
  candidates.keep_count(2);
  candidates.keep_mass(0.7 * candidates.mass());  // 1 of 1.5 is not enough
  EXPECT_EQ(kept_ids(candidates), (std::vector<int32_t>{0, 1}));
  candidates.keep_mass(0.6 * candidates.mass());
  EXPECT_EQ(kept_ids(candidates), (std::vector<int32_t>{0}));
}

TEST(Candidates, KeepAboveIsRelativeToTheHeaviest) {
  Candidates candidates(4);
  candidates.assign(std::vector<float>{0.0f, -0.5f, -1.0f, -2.0f},
                    std::vector<float>{1.0f, 0.5f, 0.3f, 0.1f}, kNoFloor);
  candidates.keep_above(0.3f);
  EXPECT_EQ(kept_ids(candidates), (std::vector<int32_t>{0, 1, 2}));
  candidates.keep_above(1.0f);
  EXPECT_EQ(kept_ids(candidates), (std::vector<int32_t>{0}));
}

TEST(Candidates, AFloorLeavesOutExactlyWhatLiesBelow) {
  const Row row = random_row(1000, 8, 30.0f);
  Candidates candidates(1000);
  for (const float floor : {-0.001f, -6.0f, -20.0f}) {
    candidates.assign(row.exponents, row.weights, floor);
    std::vector<int32_t> expected;
    for (size_t id = 0; id < row.exponents.size(); ++id) {
      if (row.exponents[id] >= floor) expected.push_back(static_cast<int32_t>(id));
    }
    EXPECT_EQ(kept_ids(candidates), expected);
  }
}

TEST(Candidates, TokensOfNoWeightAreNeverDrawn) {
  Candidates candidates(4);
  candidates.assign(std::vector<float>{-100.0f, 0.0f, -100.0f, -1.0f},
                    std::vector<float>{0.0f, 1.0f, 0.0f, 0.5f}, kNoFloor);
  EXPECT_EQ(candidates.kept().size(), 2u);
  EXPECT_EQ(candidates.draw(0.0), 1);
  EXPECT_EQ(candidates.draw(0.999999), 3);
}

}  // namespace
}  // namespace bulkhead::sampling
