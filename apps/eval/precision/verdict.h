// Whether a pair of precisions keeps what is promised of it.
//
// Threads: pure functions. Invariant: a bound is said to hold only where the whole 95 % interval
// lies within it; what so many questions cannot tell is said to be so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/compare.h"

namespace bulkhead::apps::eval {

enum class Bound {
  kNoise,     // of a cache: the interval holds 0, and the difference is less than a point
  kFall,      // of weights: no more than 0.8 point lost
  kValidity,  // of tool calls: not lower
};
std::string_view to_string(Bound bound);

enum class Standing { kHolds, kUnresolved, kMissed };

struct JudgedShare {
  Comparison compared;
  Bound bound = Bound::kFall;
  Standing standing = Standing::kUnresolved;
  std::string text;  // "holds", "not resolved by 400 questions, ..."
};

// The first measure of each task, and the validity of calls where it is one.
std::vector<JudgedShare> judge(const ComparedResults& compared, bool caches_alone);
JudgedShare judge(Comparison compared, Bound bound);

bool any_missed(const std::vector<JudgedShare>& shares);

}  // namespace bulkhead::apps::eval
