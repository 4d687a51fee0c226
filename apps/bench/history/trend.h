// Where each figure of a history stands against its own past, and whether it fell beyond noise.
//
// Threads: pure functions. Invariants: a figure is held only against earlier ones of the same
// bench, model, kernel path, engine, settings, unit and class of machine; with fewer than three of
// them nothing is judged.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/history/history.h"

namespace bulkhead::apps {

// A figure fell when it is worse than the median of the earlier ones by more than this share of it
// and by more than so many of their deviations (the median distance from the median, times 1.4826:
// the standard deviation of a normal distribution, which outliers do not move).
inline constexpr double kFallShare = 0.10;
inline constexpr double kFallDeviations = 3.0;
inline constexpr size_t kEarlierMin = 3;

// Nothing for a unit that is not known: such a figure is shown and not judged.
std::optional<bool> higher_is_better(std::string_view unit);

enum class Standing {
  kSteady,
  kBetter,  // by as much as a fall is worse
  kFell,
  kTooFew,  // earlier values
  kUnknownUnit,
};

struct Trend {
  HistoryEntry last;           // what it is of, and the newest value
  std::vector<double> values;  // all of them, the oldest first
  double earlier = 0.0;        // median of all but the last; 0 without any
  double margin = 0.0;         // how far from it is noise
  Standing standing = Standing::kTooFew;
};

// In the order in which figures first appear.
std::vector<Trend> trends_of(const std::vector<HistoryEntry>& entries);
size_t falls_in(const std::vector<Trend>& trends);
// A table for each class of machine, and the rule.
std::string trend_table(const std::vector<Trend>& trends);
// Eight heights between the lowest and the highest, of the last twelve values.
std::string sparkline(const std::vector<double>& values);

}  // namespace bulkhead::apps
