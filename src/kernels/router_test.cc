#include "kernels/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace bulkhead::kernels {
namespace {

struct Problem {
  int64_t rows = 0;
  int64_t width = 0;
  RouterArgs args;
  std::vector<float> x, weight, bias;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

float draw(base::Rng& rng) { return static_cast<float>(rng.below(2001)) / 1000.0f - 1.0f; }

Problem make_problem(int64_t rows, int64_t width, RouterArgs args, bool bias, uint64_t seed) {
  base::Rng rng(seed);
  Problem problem;
  problem.rows = rows;
  problem.width = width;
  problem.args = args;
  problem.x.resize(static_cast<size_t>(rows * width));
  problem.weight.resize(static_cast<size_t>(args.experts * width));
  if (bias) problem.bias.resize(static_cast<size_t>(args.experts));
  for (auto* values : {&problem.x, &problem.weight, &problem.bias}) {
    for (float& value : *values) value = draw(rng);
  }
  problem.ids.resize(static_cast<size_t>(rows * args.per_token), -1);
  problem.weights.resize(problem.ids.size());
  return problem;
}

void run(Problem& problem, unsigned threads = 2) {
  device::ThreadPool pool({.threads = threads});
  RouterArgs& args = problem.args;
  args.x = problem.x.data();
  args.x_stride = problem.width;
  args.rows = problem.rows;
  args.width = problem.width;
  args.weight = problem.weight.data();
  args.bias = problem.bias.empty() ? nullptr : problem.bias.data();
  args.ids = problem.ids.data();
  args.weights = problem.weights.data();
  route(args, pool);
}

struct Choice {
  std::vector<int32_t> ids;
  std::vector<double> weights;
};

// The definition in double precision, written down a second time.
Choice expected_choice(const Problem& problem, int64_t row) {
  const RouterArgs& args = problem.args;
  std::vector<double> scores;
  for (int64_t e = 0; e < args.experts; ++e) {
    double logit = 0;
    for (int64_t k = 0; k < problem.width; ++k) {
      logit += static_cast<double>(problem.x[static_cast<size_t>(row * problem.width + k)]) *
               static_cast<double>(problem.weight[static_cast<size_t>(e * problem.width + k)]);
    }
    scores.push_back(args.score == RouterScore::kSoftmax ? std::exp(logit)
                                                         : 1.0 / (1.0 + std::exp(-logit)));
  }
  if (args.score == RouterScore::kSoftmax) {
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    for (double& score : scores) score /= sum;
  }
  std::vector<double> race = scores;
  for (size_t e = 0; e < problem.bias.size(); ++e) {
    race[e] += static_cast<double>(problem.bias[e]);
  }
  const auto in_group = static_cast<size_t>(args.experts / args.groups);
  std::vector<std::pair<double, size_t>> groups;  // -(sum of the two best), index
  for (size_t g = 0; g < static_cast<size_t>(args.groups); ++g) {
    std::vector<double> members(race.begin() + static_cast<std::ptrdiff_t>(g * in_group),
                                race.begin() + static_cast<std::ptrdiff_t>((g + 1) * in_group));
    std::sort(members.rbegin(), members.rend());
    groups.emplace_back(-(members[0] + (members.size() > 1 ? members[1] : 0.0)), g);
  }
  std::sort(groups.begin(), groups.end());
  std::vector<std::pair<double, int32_t>> open;
  for (int32_t i = 0; i < args.groups_used; ++i) {
    const size_t g = groups[static_cast<size_t>(i)].second;
    for (size_t e = g * in_group; e < (g + 1) * in_group; ++e) {
      open.emplace_back(-race[e], static_cast<int32_t>(e));
    }
  }
  std::sort(open.begin(), open.end());
  Choice choice;
  for (int32_t i = 0; i < args.per_token; ++i)
    choice.ids.push_back(open[static_cast<size_t>(i)].second);
  std::sort(choice.ids.begin(), choice.ids.end());
  double sum = 0;
  for (const int32_t id : choice.ids) sum += scores[static_cast<size_t>(id)];
  for (const int32_t id : choice.ids) {
    choice.weights.push_back(scores[static_cast<size_t>(id)] / (args.normalise ? sum : 1.0) *
                             static_cast<double>(args.scale));
  }
  return choice;
}

// C030
TEST(Router, ChoosesAndWeighsAsTheDefinitionSays) {
  const RouterArgs shapes[] = {
      {.experts = 8, .per_token = 2, .normalise = true},
      {.experts = 8, .per_token = 8},
      {.experts = 64,
       .per_token = 6,
       .score = RouterScore::kSigmoid,
       .normalise = true,
       .scale = 2.5f},
      {.experts = 32,
       .per_token = 4,
       .groups = 8,
       .groups_used = 3,
       .score = RouterScore::kSigmoid,
       .normalise = true,
       .scale = 2.827f},
      {.experts = 1, .per_token = 1},
  };
  uint64_t seed = 1;
  for (const RouterArgs& shape : shapes) {
    for (const int64_t width : {16, 37, 200}) {
      for (const bool bias : {false, true}) {
        Problem problem = make_problem(19, width, shape, bias, seed++);
        run(problem);
        for (int64_t row = 0; row < problem.rows; ++row) {
          const Choice expected = expected_choice(problem, row);
          for (int32_t i = 0; i < shape.per_token; ++i) {
            const auto at = static_cast<size_t>(row * shape.per_token + i);
            ASSERT_EQ(problem.ids[at], expected.ids[static_cast<size_t>(i)])
                << "seed " << seed << " row " << row;
            EXPECT_NEAR(problem.weights[at], expected.weights[static_cast<size_t>(i)], 1e-5);
          }
        }
      }
    }
  }
}

TEST(Router, ARowsBitsDependOnItselfOnly) {
  const RouterArgs shape{
      .experts = 16, .per_token = 4, .score = RouterScore::kSigmoid, .normalise = true};
  Problem many = make_problem(21, 77, shape, true, 5);
  run(many);
  for (int64_t row = 0; row < many.rows; ++row) {
    Problem one = many;
    one.rows = 1;
    one.x.assign(many.x.begin() + row * 77, many.x.begin() + (row + 1) * 77);
    run(one, 1);
    for (size_t i = 0; i < 4; ++i) {
      const size_t at = static_cast<size_t>(row) * 4 + i;
      EXPECT_EQ(one.ids[i], many.ids[at]);
      EXPECT_EQ(std::memcmp(&one.weights[i], &many.weights[at], sizeof(float)), 0);
    }
  }
}

// C029
TEST(Router, ABiasRoundedToBf16WouldChooseOtherExpertsAndIsNot) {
  Problem problem =
      make_problem(1, 16, {.experts = 4, .per_token = 1, .score = RouterScore::kSigmoid}, true, 1);
  std::fill(problem.weight.begin(), problem.weight.end(), 0.0f);  // every score is 1/2
  problem.bias = {1.0f, 1.0f, 1.001f, 1.0f};                      // BF16 knows no 1.001
  run(problem);
  EXPECT_EQ(problem.ids, (std::vector<int32_t>{2}));
  EXPECT_FLOAT_EQ(problem.weights[0], 0.5f);
}

TEST(Router, OfEqualScoresTheLowerExpertIsChosen) {
  Problem problem = make_problem(3, 16, {.experts = 8, .per_token = 3}, false, 1);
  std::fill(problem.weight.begin(), problem.weight.end(), 0.5f);
  run(problem);
  EXPECT_EQ(problem.ids, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(Router, ARowOfNanChoosesDifferentExpertsAndWeighsThemWithNan) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    Problem problem = make_problem(
        2, 16, {.experts = 8, .per_token = 4, .groups = 2, .groups_used = 1, .score = score}, true,
        3);
    std::fill_n(problem.x.begin(), 16, std::numeric_limits<float>::quiet_NaN());
    run(problem);
    EXPECT_TRUE(std::is_sorted(problem.ids.begin(), problem.ids.begin() + 4,
                               [](int32_t a, int32_t b) { return a <= b; }));
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(problem.ids[i] >= 0 && problem.ids[i] < 8);
      EXPECT_TRUE(std::isnan(problem.weights[i]));
      EXPECT_FALSE(std::isnan(problem.weights[4 + i]));  // the neighbour
    }
  }
}

}  // namespace
}  // namespace bulkhead::kernels
