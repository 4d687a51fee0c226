#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/rng.h"

namespace bulkhead::sampling {
namespace {

using wire::SequenceState;
using wire::TokenId;

SequenceState make_sequence(std::vector<TokenId> prompt = {1},
                            std::vector<TokenId> generated = {}) {
  wire::GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = 1000;
  SequenceState sequence(std::move(request), 0);
  for (const TokenId token : generated) sequence.tokens.push_back(token);
  return sequence;
}

TokenId sampled(Sampler& sampler, const std::vector<float>& logits, const SequenceState& sequence) {
  auto result = sampler.sample(logits, sequence);
  EXPECT_TRUE(result.ok());
  return result.ok() ? result->token : -1;
}

std::vector<float> random_logits(size_t width, uint64_t seed) {
  base::Rng rng(seed);
  std::vector<float> logits(width);
  for (float& value : logits) value = static_cast<float>(rng.unit() * 12.0 - 6.0);
  return logits;
}

// The documented order of steps, in double precision, by sorting.
std::vector<double> reference_distribution(const std::vector<float>& logits,
                                           const SequenceState& sequence) {
  const wire::SamplingParams& params = sequence.sampling;
  std::vector<double> values(logits.begin(), logits.end());
  for (const auto& [id, bias] : params.logit_bias) values[static_cast<size_t>(id)] += bias;
  std::map<TokenId, int> seen;
  std::map<TokenId, int> made;
  for (const TokenId id : sequence.tokens) ++seen[id];
  for (const TokenId id : sequence.generated()) ++made[id];
  for (const auto& [id, count] : seen) {
    double& value = values[static_cast<size_t>(id)];
    value = value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty;
  }
  for (const auto& [id, count] : made) {
    values[static_cast<size_t>(id)] -= static_cast<double>(params.frequency_penalty) * count +
                                       static_cast<double>(params.presence_penalty);
  }
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  const double greatest = values[order[0]];
  std::vector<double> weights(values.size(), 0.0);
  const size_t count =
      params.top_k > 0 ? std::min(order.size(), static_cast<size_t>(params.top_k)) : order.size();
  double total = 0.0;
  for (size_t i = 0; i < count; ++i) {
    weights[order[i]] =
        std::exp((values[order[i]] - greatest) / static_cast<double>(params.temperature));
    total += weights[order[i]];
  }
  double before = 0.0;
  double kept = 0.0;
  for (size_t i = 0; i < order.size(); ++i) {
    double& weight = weights[order[i]];
    const bool outside = before >= static_cast<double>(params.top_p) * total;
    before += weight;
    if (outside || weight < static_cast<double>(params.min_p)) weight = 0.0;
    kept += weight;
  }
  for (double& weight : weights) weight /= kept;
  return weights;
}

// Chi-square against the reference; the 99.99 % quantile by Wilson and Hilferty. Fixed seeds: the
// test gives the same result every time.
void expect_distribution(const std::vector<float>& logits, SequenceState sequence, int draws) {
  const auto expected = reference_distribution(logits, sequence);
  Sampler sampler(static_cast<int32_t>(logits.size()));
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < draws; ++i) {
    sequence.sampling.seed = static_cast<uint64_t>(i) * 7919 + 13;
    ++counts[static_cast<size_t>(sampled(sampler, logits, sequence))];
  }
  double chi = 0.0;
  double rest_expected = 0.0;
  double rest_seen = 0.0;
  int freedom = -1;
  for (size_t id = 0; id < counts.size(); ++id) {
    if (expected[id] == 0.0) {
      EXPECT_EQ(counts[id], 0) << "excluded token " << id;
      continue;
    }
    const double mean = expected[id] * draws;
    if (mean < 5.0) {
      rest_expected += mean;
      rest_seen += counts[id];
      continue;
    }
    chi += (counts[id] - mean) * (counts[id] - mean) / mean;
    ++freedom;
  }
  if (rest_expected >= 5.0) {
    chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++freedom;
  }
  if (freedom < 1) return;
  const double term = 2.0 / (9.0 * freedom);
  const double quantile = freedom * std::pow(1.0 - term + 3.719 * std::sqrt(term), 3);
  EXPECT_LT(chi, quantile) << freedom << " degrees of freedom";
}

TEST(Sampler, GreedyTakesTheGreatestAndTiesTheLowestId) {
  Sampler sampler(600);
  SequenceState sequence = make_sequence();
  sequence.sampling.temperature = 0.0f;
  auto logits = random_logits(600, 1);
  logits[17] = logits[421] = 20.0f;
  EXPECT_EQ(sampled(sampler, logits, sequence), 17);
}

TEST(Sampler, FollowsThePlainSoftmaxAtAnyTemperature) {
  for (const float temperature : {0.3f, 1.0f, 2.0f}) {
    SequenceState sequence = make_sequence();
    sequence.sampling.temperature = temperature;
    expect_distribution(random_logits(40, 2), std::move(sequence), 20000);
  }
}

TEST(Sampler, FollowsThePlainSoftmaxAcrossBlocksOfTheVocabulary) {
  SequenceState sequence = make_sequence();
  sequence.sampling.temperature = 0.7f;
  expect_distribution(random_logits(700, 3), std::move(sequence), 40000);
}

TEST(Sampler, FollowsTheDocumentedOrderOfFilters) {
  struct Case {
    int32_t top_k;
    float top_p;
    float min_p;
  };
  for (const Case c : {Case{5, 1.0f, 0.0f}, Case{0, 0.8f, 0.0f}, Case{0, 1.0f, 0.1f},
                       Case{10, 0.7f, 0.0f}, Case{10, 0.9f, 0.2f}, Case{1, 0.5f, 0.9f},
                       Case{1000, 0.95f, 0.01f}, Case{0, 0.0001f, 0.0f}}) {
    SequenceState sequence = make_sequence();
    sequence.sampling.temperature = 0.8f;
    sequence.sampling.top_k = c.top_k;
    sequence.sampling.top_p = c.top_p;
    sequence.sampling.min_p = c.min_p;
    expect_distribution(random_logits(60, 4), std::move(sequence), 20000);
  }
}

TEST(Sampler, AppliesBiasAndPenaltiesBeforeTemperature) {
  SequenceState sequence = make_sequence({1, 2, 3, 3}, {4, 5, 5, 5, 2});
  sequence.sampling.temperature = 0.9f;
  sequence.sampling.repetition_penalty = 1.3f;
  sequence.sampling.frequency_penalty = 0.4f;
  sequence.sampling.presence_penalty = -0.6f;
  sequence.sampling.logit_bias = {{7, 3.5f}, {8, -100.0f}, {2, 1.0f}};
  expect_distribution(random_logits(30, 5), std::move(sequence), 20000);
}

// C142
TEST(Sampler, PenaltiesLeaveNoTraceForTheNextSequence) {
  Sampler sampler(50);
  const auto logits = random_logits(50, 6);
  SequenceState plain = make_sequence();
  plain.sampling.temperature = 0.0f;
  plain.sampling.frequency_penalty = 0.1f;
  const TokenId before = sampled(sampler, logits, plain);
  SequenceState heavy = make_sequence({before}, {before, before});
  heavy.sampling.temperature = 0.0f;
  heavy.sampling.repetition_penalty = 2.0f;
  heavy.sampling.frequency_penalty = 2.0f;
  EXPECT_NE(sampled(sampler, logits, heavy), before);
  EXPECT_EQ(sampled(sampler, logits, plain), before);
  // Nor does a penalty on repetition alone, which would pass over what it has counted before.
  heavy.sampling.frequency_penalty = 0.0f;
  const TokenId other = sampled(sampler, logits, heavy);
  EXPECT_NE(other, before);
  EXPECT_EQ(sampled(sampler, logits, heavy), other);
}

// C165
TEST(Sampler, DrawsAreAFunctionOfSeedAndPosition) {
  const auto logits = random_logits(500, 7);
  Sampler used(500);
  SequenceState noise = make_sequence({9}, {1, 2, 3});
  noise.sampling.top_k = 3;
  SequenceState sequence = make_sequence();
  sequence.sampling.seed = 42;
  std::vector<TokenId> first;
  for (int i = 0; i < 30; ++i) {
    Sampler fresh(500);
    const TokenId token = sampled(fresh, logits, sequence);
    noise.sampling.seed = static_cast<uint64_t>(i);
    sampled(used, logits, noise);
    EXPECT_EQ(sampled(used, logits, sequence), token) << "neighbours have no influence";
    first.push_back(token);
    sequence.tokens.push_back(token);
  }
  EXPECT_GT(std::set<TokenId>(first.begin(), first.end()).size(), 5u) << "positions differ";
  SequenceState other = make_sequence();
  other.sampling.seed = 43;
  std::vector<TokenId> second;
  for (int i = 0; i < 30; ++i) {
    second.push_back(sampled(used, logits, other));
    other.tokens.push_back(second.back());
  }
  EXPECT_NE(first, second);
}

TEST(Sampler, StopIdsWaitForMinTokens) {
  Sampler sampler(10);
  std::vector<float> logits(10, 0.0f);
  logits[3] = 9.0f;
  logits[4] = 5.0f;
  SequenceState sequence = make_sequence();
  sequence.sampling.temperature = 0.0f;
  sequence.stop_ids = {3, 99, -1};  // ids the model cannot produce are harmless
  sequence.min_tokens = 2;
  EXPECT_EQ(sampled(sampler, logits, sequence), 4);
  sequence.tokens.push_back(4);
  EXPECT_EQ(sampled(sampler, logits, sequence), 4);
  sequence.tokens.push_back(4);
  EXPECT_EQ(sampled(sampler, logits, sequence), 3);
  sequence.sampling.temperature = 1.0f;
  sequence.min_tokens = 10;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    sequence.sampling.seed = seed;
    EXPECT_NE(sampled(sampler, logits, sequence), 3);
  }
}

// C137
TEST(Sampler, AnEmptyChoiceIsAnErrorNotAGuess) {
  Sampler sampler(3);
  SequenceState sequence = make_sequence();
  sequence.stop_ids = {0, 1, 2};
  sequence.min_tokens = 1;
  const auto result = sampler.sample(std::vector<float>{1, 2, 3}, sequence);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, base::ErrorCode::kInternal);
}

// C176
TEST(Sampler, NonFiniteLogitsAreAnErrorNotAGuess) {
  Sampler sampler(300);
  SequenceState sequence = make_sequence();
  for (const float temperature : {0.0f, 1.0f}) {
    sequence.sampling.temperature = temperature;
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      auto logits = random_logits(300, 8);
      logits[299] = bad;
      EXPECT_FALSE(sampler.sample(logits, sequence).ok());
    }
  }
}

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  const auto logits = random_logits(1000, 9);
  double mass = 0.0;
  for (const float value : logits) mass += std::exp(static_cast<double>(value));
  Sampler sampler(1000);
  SequenceState sequence = make_sequence({1}, {2, 2});
  sequence.sampling.temperature = 0.5f;
  sequence.sampling.frequency_penalty = 2.0f;
  sequence.sampling.logit_bias = {{11, 50.0f}};
  sequence.sampling.top_logprobs = 5;
  auto result = sampler.sample(logits, sequence);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->token, 11);
  EXPECT_NEAR(result->logprob, static_cast<double>(logits[11]) - std::log(mass), 1e-5);
  ASSERT_EQ(result->top_logprobs.size(), 5u);
  const auto greatest = std::max_element(logits.begin(), logits.end());
  EXPECT_EQ(result->top_logprobs[0].id, greatest - logits.begin());
  for (size_t i = 0; i < 5; ++i) {
    const auto& top = result->top_logprobs[i];
    EXPECT_NEAR(top.logprob,
                static_cast<double>(logits[static_cast<size_t>(top.id)]) - std::log(mass), 1e-5);
    if (i > 0) {
      EXPECT_LE(top.logprob, result->top_logprobs[i - 1].logprob);
    }
  }
  sequence.sampling.top_logprobs = 0;
  result = sampler.sample(logits, sequence);
  ASSERT_TRUE(result.ok());
  EXPECT_LT(result->logprob, 0.0f);
  EXPECT_TRUE(result->top_logprobs.empty());
}

TEST(Sampler, ExtremeParametersStayWellDefined) {
  Sampler sampler(20);
  for (const float scale : {1.0f, 1e30f, 1e38f}) {
    std::vector<float> logits(20);
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = (static_cast<float>(i) / 10.0f - 1.0f) * scale;
    }
    for (const float temperature : {0.0f, 1e-38f, 1e-45f, 1e-3f, 2.0f}) {
      for (const float repetition : {1e-38f, 1e-45f, 1.0f, 2.0f}) {
        SequenceState sequence = make_sequence({19, 0}, {19, 1});
        sequence.sampling.temperature = temperature;
        sequence.sampling.repetition_penalty = repetition;
        sequence.sampling.presence_penalty = -2.0f;
        sequence.sampling.logit_bias = {{5, 100.0f}, {6, -100.0f}};
        for (const float top_p : {1.0f, 1e-30f}) {
          sequence.sampling.top_p = top_p;
          const TokenId token = sampled(sampler, logits, sequence);
          EXPECT_GE(token, 0);
          EXPECT_LT(token, 20);
        }
      }
    }
  }
}

TEST(Sampler, AVocabularyOfOneWorks) {
  Sampler sampler(1);
  SequenceState sequence = make_sequence({0});
  sequence.sampling.top_k = 1;
  sequence.sampling.top_p = 0.5f;
  sequence.sampling.top_logprobs = 5;
  auto result = sampler.sample(std::vector<float>{3.0f}, sequence);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->token, 0);
  EXPECT_EQ(result->logprob, 0.0f);
  EXPECT_EQ(result->top_logprobs.size(), 1u);
}

}  // namespace
}  // namespace bulkhead::sampling
