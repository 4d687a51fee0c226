#include "kernels/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"

namespace bulkhead::kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kRowsPerItem = 8;  // that use a row of the matrix while it is in the cache
constexpr float kNever = -std::numeric_limits<float>::infinity();

float dot(const float* x, const float* w, int64_t width) {
  float lanes[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= width; k += kLanes) {
    for (int64_t i = 0; i < kLanes; ++i) lanes[i] += x[k + i] * w[k + i];
  }
  for (int64_t i = 0; k + i < width; ++i) lanes[i] += x[k + i] * w[k + i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

void score_softmax(std::span<float> logits) {
  const float greatest = *std::max_element(logits.begin(), logits.end());
  float sum = 0.0f;
  for (float& value : logits) sum += value = std::exp(value - greatest);
  for (float& value : logits) value /= sum;
}

void score_sigmoid(std::span<float> logits) {
  for (float& value : logits) value = 1.0f / (1.0f + std::exp(-value));
}

// Takes the groups that may not be chosen from out of the race.
void mask_groups(const RouterArgs& args, std::span<float> race) {
  const auto in_group = static_cast<size_t>(args.experts / args.groups);
  // The best group first, groups_used times; what was not taken is masked.
  uint64_t taken[64] = {};
  const auto is_taken = [&](size_t group) { return (taken[group / 64] >> (group % 64) & 1) != 0; };
  for (int32_t round = 0; round < args.groups_used; ++round) {
    size_t best = 0;
    float best_sum = kNever;
    bool found = false;
    for (size_t group = 0; group < static_cast<size_t>(args.groups); ++group) {
      if (is_taken(group)) continue;
      float first = kNever;
      float second = kNever;
      for (const float value : race.subspan(group * in_group, in_group)) {
        if (value > first) {
          second = std::exchange(first, value);
        } else if (value > second) {
          second = value;
        }
      }
      if (!found || first + second > best_sum) {
        best = group;
        best_sum = first + second;
        found = true;
      }
    }
    taken[best / 64] |= uint64_t{1} << (best % 64);
  }
  for (size_t group = 0; group < static_cast<size_t>(args.groups); ++group) {
    if (is_taken(group)) continue;
    std::ranges::fill(race.subspan(group * in_group, in_group), kNever);
  }
}

void choose(const RouterArgs& args, std::span<float> race, int32_t* ids) {
  if (args.groups > 1) mask_groups(args, race);
  constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();
  for (int32_t slot = 0; slot < args.per_token; ++slot) {
    size_t best = race.size();
    for (size_t e = 0; e < race.size(); ++e) {
      if (std::isnan(race[e])) continue;
      if (best == race.size() || race[e] > race[best]) best = e;
    }
    BH_CHECK(best < race.size(), "there are at least per_token experts");
    ids[slot] = static_cast<int32_t>(best);
    race[best] = kTaken;
  }
  std::sort(ids, ids + args.per_token);
}

void weigh(const RouterArgs& args, std::span<const float> scores, const int32_t* ids,
           float* weights) {
  float sum = 0.0f;
  for (int32_t slot = 0; slot < args.per_token; ++slot) {
    weights[slot] = scores[static_cast<size_t>(ids[slot])];
    sum += weights[slot];
  }
  // 1e-20 as the published code has it; a softmax's sum cannot be that small.
  const float divisor = args.normalise ? sum + 1e-20f : 1.0f;
  for (int32_t slot = 0; slot < args.per_token; ++slot) {
    weights[slot] = weights[slot] / divisor * args.scale;
  }
}

void route_row(const RouterArgs& args, int64_t row, std::span<float> scores,
               std::span<float> race) {
  if (args.score == RouterScore::kSoftmax) {
    score_softmax(scores);
  } else {
    score_sigmoid(scores);
  }
  for (size_t e = 0; e < race.size(); ++e) {
    const float value = scores[e] + (args.bias != nullptr ? args.bias[e] : 0.0f);
    // A row of NaN must still choose different experts; its weights stay NaN and are seen later.
    race[e] = std::isnan(value) ? kNever : value;
  }
  int32_t* ids = args.ids + row * args.per_token;
  choose(args, race, ids);
  weigh(args, scores, ids, args.weights + row * args.per_token);
}

}  // namespace

void route(const RouterArgs& args, device::ThreadPool& pool) {
  const auto experts = static_cast<size_t>(args.experts);
  BH_CHECK(args.per_token > 0 && args.per_token <= args.experts,
           "a token uses some of the experts");
  BH_CHECK(args.groups > 0 && args.groups <= 4096 && args.experts % args.groups == 0,
           "groups of equal size");
  const int64_t items = (args.rows + kRowsPerItem - 1) / kRowsPerItem;
  pool.run(static_cast<size_t>(items), [&](size_t item, unsigned worker) {
    const int64_t begin = static_cast<int64_t>(item) * kRowsPerItem;
    const int64_t rows = std::min(kRowsPerItem, args.rows - begin);
    auto* space = reinterpret_cast<float*>(pool.scratch(worker).data());
    const std::span<float> race(space, experts);
    const std::span<float> scores(space + experts, experts * static_cast<size_t>(rows));
    for (size_t e = 0; e < experts; ++e) {
      const float* w = args.weight + static_cast<int64_t>(e) * args.width;
      for (int64_t r = 0; r < rows; ++r) {
        scores[static_cast<size_t>(r) * experts + e] =
            dot(args.x + (begin + r) * args.x_stride, w, args.width);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      route_row(args, begin + r, scores.subspan(static_cast<size_t>(r) * experts, experts), race);
    }
  });
}

}  // namespace bulkhead::kernels
