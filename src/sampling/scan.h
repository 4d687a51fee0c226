// Passes over a whole row of logits: its greatest value, whether it is finite, its softmax.
//
// Threads: pure functions. Invariants: every sum has one fixed order, so a row gives the same bits
// every time; of equal values the lowest id counts as the greatest.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "wire/generate.h"

namespace bulkhead::sampling {

struct Greatest {
  int32_t index = -1;  // -1 when no value is above -infinity
  float value = 0.0f;
  bool finite = true;  // no NaN and no infinity anywhere in the row
};

// One pass.
Greatest find_greatest(std::span<const float> row);

// Sum of non-negative values, in a fixed order of lanes and blocks.
double sum(std::span<const float> values);

// weights[i] = exp(exponents[i]) with exponents[i] = (row[i] - greatest) / temperature. Returns the
// weight of each stretch of kWeighBlock tokens in `masses`.
inline constexpr size_t kWeighBlock = 256;
void weigh(std::span<const float> row, float greatest, float temperature,
           std::span<float> exponents, std::span<float> weights, std::span<double> masses);

// How many tokens have an exponent of at least `floor`, and their weight.
struct Above {
  size_t count = 0;
  double mass = 0.0;
};
Above measure_above(std::span<const float> exponents, std::span<const float> weights, float floor);

// log(sum(exp(row))), given the row's greatest value; every value finite.
double log_sum_exp(std::span<const float> row, float greatest);

// The out.size() greatest values of a finite row, greatest first.
void find_top(std::span<const float> row, std::span<wire::TokenLogprob> out);

}  // namespace bulkhead::sampling
