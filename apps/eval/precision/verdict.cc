#include "apps/eval/precision/verdict.h"

#include <fmt/format.h>

#include <cmath>

namespace bulkhead::apps::eval {
namespace {

constexpr double kNoise = 0.01;
constexpr double kFall = 0.008;
// Shares are quotients of whole numbers: equality with a bound is meant, not its last bit.
constexpr double kLastBit = 1e-12;
constexpr std::string_view kValidCalls = "valid_calls";

// What the bound says of the difference itself.
bool within(const Comparison& compared, Bound bound) {
  const double difference = compared.after() - compared.before();
  switch (bound) {
    case Bound::kNoise:
      return std::abs(difference) < kNoise - kLastBit;
    case Bound::kFall:
      return difference >= -kFall - kLastBit;
    case Bound::kValidity:
      return difference >= -kLastBit;
  }
  return false;
}

// Whether all that the difference may be lies within the bound.
bool shown(const Comparison& compared, Bound bound) {
  const Interval& interval = compared.interval;
  switch (bound) {
    case Bound::kNoise:
      return interval.low > -kNoise && interval.high < kNoise;
    case Bound::kFall:
      return interval.low >= -kFall;
    case Bound::kValidity:  // equal counts as not lower: the promise is of what was seen
      return true;
  }
  return false;
}

// Whether it is more than chance, in the direction that the bound forbids.
bool beyond_chance(const Comparison& compared, Bound bound) {
  const Interval& interval = compared.interval;
  return interval.high < 0.0 || (bound == Bound::kNoise && interval.low > 0.0);
}

Standing standing_of(const Comparison& compared, Bound bound) {
  const bool real = beyond_chance(compared, bound);
  // Noise has to be chance; of the others only what is beyond the bound counts.
  if (real && (bound == Bound::kNoise || !within(compared, bound))) return Standing::kMissed;
  if (within(compared, bound) && shown(compared, bound)) return Standing::kHolds;
  return Standing::kUnresolved;
}

std::string text_of(const Comparison& compared, Bound bound, Standing standing) {
  if (standing == Standing::kHolds) return "holds";
  if (standing == Standing::kMissed) return "missed";
  if (bound == Bound::kValidity) return "within noise: lower, by no more than chance";
  return fmt::format("not resolved by {} questions; what was seen is {}", compared.pairs.total(),
                     within(compared, bound) ? "within the bound" : "beyond it");
}

}  // namespace

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::kNoise:
      return "within noise, less than 1 point";
    case Bound::kFall:
      return "at most 0.8 point lower";
    case Bound::kValidity:
      return "not lower";
  }
  return "";
}

JudgedShare judge(Comparison compared, Bound bound) {
  JudgedShare out;
  out.bound = bound;
  out.standing = standing_of(compared, bound);
  out.text = text_of(compared, bound, out.standing);
  out.compared = std::move(compared);
  return out;
}

std::vector<JudgedShare> judge(const ComparedResults& compared, bool caches_alone) {
  std::vector<JudgedShare> out;
  std::string task;
  for (const Comparison& one : compared.shares) {
    const bool first = one.task != task;
    task = one.task;
    if (first) {
      out.push_back(judge(one, caches_alone ? Bound::kNoise : Bound::kFall));
    } else if (one.measure == kValidCalls) {
      out.push_back(judge(one, Bound::kValidity));
    }
  }
  return out;
}

bool any_missed(const std::vector<JudgedShare>& shares) {
  for (const JudgedShare& one : shares) {
    if (one.standing == Standing::kMissed) return true;
  }
  return false;
}

}  // namespace bulkhead::apps::eval
