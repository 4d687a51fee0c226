#include "sampling/scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sampling/exp.h"

namespace bulkhead::sampling {
namespace {

// Fixed lanes keep the order of every reduction, and let the compiler use vectors.
constexpr size_t kLanes = 16;
constexpr size_t kBlock = 256;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

struct BlockScan {
  float greatest;
  float zero;  // 0 if the block is finite, NaN if not
};

BlockScan scan_block(const float* values) {
  float greatest[kLanes];
  float zero[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) {
    greatest[lane] = kLowest;
    zero[lane] = 0.0f;
  }
  for (size_t i = 0; i < kBlock; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      greatest[lane] = value > greatest[lane] ? value : greatest[lane];
      zero[lane] += value * 0.0f;
    }
  }
  BlockScan scan{kLowest, 0.0f};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    scan.greatest = std::max(scan.greatest, greatest[lane]);
    scan.zero += zero[lane];
  }
  return scan;
}

BlockScan scan_tail(std::span<const float> values) {
  BlockScan scan{kLowest, 0.0f};
  for (const float value : values) {
    scan.greatest = value > scan.greatest ? value : scan.greatest;
    scan.zero += value * 0.0f;
  }
  return scan;
}

double sum_block(const float* values) {
  float lanes[kLanes] = {};
  for (size_t i = 0; i < kBlock; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane];
  }
  double total = 0.0;
  for (const float lane : lanes) total += static_cast<double>(lane);
  return total;
}

double mass_of_block(const float* values, float greatest) {
  float weights[kBlock];
  for (size_t i = 0; i < kBlock; ++i) weights[i] = exp_nonpositive(values[i] - greatest);
  return sum_block(weights);
}

void weigh_block(const float* __restrict__ values, float greatest, float temperature,
                 float* __restrict__ exponents, float* __restrict__ weights) {
  for (size_t i = 0; i < kBlock; ++i) exponents[i] = (values[i] - greatest) / temperature;
  for (size_t i = 0; i < kBlock; ++i) weights[i] = exp_nonpositive(exponents[i]);
}

Above measure_block(const float* exponents, const float* weights, float floor) {
  int32_t counts[kLanes] = {};
  float masses[kLanes] = {};
  for (size_t i = 0; i < kBlock; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const int32_t mask = -static_cast<int32_t>(exponents[i + lane] >= floor);
      counts[lane] -= mask;
      masses[lane] += std::bit_cast<float>(std::bit_cast<int32_t>(weights[i + lane]) & mask);
    }
  }
  Above above;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    above.count += static_cast<size_t>(counts[lane]);
    above.mass += static_cast<double>(masses[lane]);
  }
  return above;
}

}  // namespace

Greatest find_greatest(std::span<const float> row) {
  Greatest best{-1, kLowest, true};
  float zero = 0.0f;
  size_t best_block = 0;
  for (size_t start = 0; start < row.size(); start += kBlock) {
    const bool whole = start + kBlock <= row.size();
    const BlockScan scan = whole ? scan_block(row.data() + start) : scan_tail(row.subspan(start));
    zero += scan.zero;
    if (scan.greatest > best.value) {
      best.value = scan.greatest;
      best.index = 0;
      best_block = start;
    }
  }
  best.finite = zero == 0.0f;
  if (best.index < 0) return best;
  size_t i = best_block;
  while (row[i] != best.value) ++i;
  best.index = static_cast<int32_t>(i);
  return best;
}

double sum(std::span<const float> values) {
  double total = 0.0;
  size_t i = 0;
  for (; i + kBlock <= values.size(); i += kBlock) total += sum_block(values.data() + i);
  for (; i < values.size(); ++i) total += static_cast<double>(values[i]);
  return total;
}

void weigh(std::span<const float> row, float greatest, float temperature,
           std::span<float> exponents, std::span<float> weights, std::span<double> masses) {
  static_assert(kWeighBlock == kBlock);
  size_t start = 0;
  for (; start + kBlock <= row.size(); start += kBlock) {
    weigh_block(row.data() + start, greatest, temperature, exponents.data() + start,
                weights.data() + start);
    masses[start / kBlock] = sum_block(weights.data() + start);
  }
  if (start == row.size()) return;
  for (size_t i = start; i < row.size(); ++i) {
    exponents[i] = (row[i] - greatest) / temperature;
    weights[i] = exp_nonpositive(exponents[i]);
  }
  masses[start / kBlock] = sum(weights.subspan(start, row.size() - start));
}

Above measure_above(std::span<const float> exponents, std::span<const float> weights, float floor) {
  Above above;
  size_t i = 0;
  for (; i + kBlock <= exponents.size(); i += kBlock) {
    const Above block = measure_block(exponents.data() + i, weights.data() + i, floor);
    above.count += block.count;
    above.mass += block.mass;
  }
  for (; i < exponents.size(); ++i) {
    if (exponents[i] < floor) continue;
    ++above.count;
    above.mass += static_cast<double>(weights[i]);
  }
  return above;
}

double log_sum_exp(std::span<const float> row, float greatest) {
  double mass = 0.0;
  size_t i = 0;
  for (; i + kBlock <= row.size(); i += kBlock) mass += mass_of_block(row.data() + i, greatest);
  for (; i < row.size(); ++i) mass += static_cast<double>(exp_nonpositive(row[i] - greatest));
  return static_cast<double>(greatest) + std::log(mass);
}

void find_top(std::span<const float> row, std::span<wire::TokenLogprob> out) {
  size_t found = 0;
  for (size_t id = 0; id < row.size(); ++id) {
    const float value = row[id];
    if (found == out.size() && !(value > out[found - 1].logprob)) continue;
    size_t at = found < out.size() ? found++ : found - 1;
    for (; at > 0 && value > out[at - 1].logprob; --at) out[at] = out[at - 1];
    out[at] = {static_cast<wire::TokenId>(id), value};
  }
}

}  // namespace bulkhead::sampling
