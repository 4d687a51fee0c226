#include "apps/bench/history/trend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "apps/bench/statistics.h"

namespace bulkhead::apps {
namespace {

constexpr size_t kSparks = 12;
constexpr double kNormal = 1.4826;
constexpr std::array<std::string_view, 8> kLower = {"s",     "ms",  "us",  "ns",
                                                    "bytes", "MiB", "GiB", "answers changed"};
constexpr std::array<std::string_view, 4> kHigher = {"x", "%", "of peak", "tokens"};

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return percentile(values, 0.5);
}

void judge(Trend& trend) {
  const std::vector<double> before(trend.values.begin(), trend.values.end() - 1);
  const double last = trend.values.back();
  trend.earlier = median_of(before);
  if (before.size() < kEarlierMin) return;
  std::vector<double> distances;
  distances.reserve(before.size());
  for (const double value : before) distances.push_back(std::abs(value - trend.earlier));
  trend.margin = std::max(kFallShare * std::abs(trend.earlier),
                          kFallDeviations * kNormal * median_of(std::move(distances)));
  const std::optional<bool> higher = higher_is_better(trend.last.unit);
  if (!higher) {
    trend.standing = Standing::kUnknownUnit;
    return;
  }
  const double gain = *higher ? last - trend.earlier : trend.earlier - last;
  trend.standing = gain < -trend.margin  ? Standing::kFell
                   : gain > trend.margin ? Standing::kBetter
                                         : Standing::kSteady;
}

std::string_view text_of(Standing standing) {
  switch (standing) {
    case Standing::kSteady:
      return "";
    case Standing::kBetter:
      return "better";
    case Standing::kFell:
      return "FELL";
    case Standing::kTooFew:
      return "too few";
    case Standing::kUnknownUnit:
      return "unit unknown";
  }
  return "";
}

// "peer_llama, smollm2, Bulkhead, avx2: decode 8".
std::string name_of(const HistoryEntry& entry) {
  std::string name = entry.bench;
  for (const std::string* part : {&entry.model, &entry.engine, &entry.isa, &entry.settings}) {
    if (!part->empty()) name += ", " + *part;
  }
  return name + ": " + entry.figure;
}

std::string row_of(const Trend& trend, size_t name_width) {
  const double last = trend.values.back();
  const bool has_past = trend.values.size() > 1;
  const std::string earlier = has_past ? fmt::format("{:.4g}", trend.earlier) : "-";
  const std::string ratio =
      has_past && trend.earlier != 0.0 ? fmt::format("{:.2f}x", last / trend.earlier) : "-";
  std::string row =
      fmt::format("{:<{}}  {:>4} {:>10} {:>10} {:>7}  {:<10} {:<12} {}", name_of(trend.last),
                  name_width, trend.values.size(), earlier, fmt::format("{:.4g}", last), ratio,
                  trend.last.unit, text_of(trend.standing), sparkline(trend.values));
  return row + '\n';
}

void machine_table(std::string& out, const std::vector<const Trend*>& trends) {
  size_t width = 0;
  for (const Trend* trend : trends) width = std::max(width, name_of(trend->last).size());
  out += fmt::format("{}\n{:<{}}  {:>4} {:>10} {:>10} {:>7}  {:<10} {:<12} {}\n",
                     trends.front()->last.machine, "", width, "runs", "earlier", "last", "ratio",
                     "unit", "", "trend");
  for (const Trend* trend : trends) out += row_of(*trend, width);
  out += '\n';
}

}  // namespace

std::optional<bool> higher_is_better(std::string_view unit) {
  if (std::find(kLower.begin(), kLower.end(), unit) != kLower.end()) return false;
  if (std::find(kHigher.begin(), kHigher.end(), unit) != kHigher.end()) return true;
  if (unit.ends_with("/s")) return true;
  return std::nullopt;
}

std::vector<Trend> trends_of(const std::vector<HistoryEntry>& entries) {
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string,
                         std::string, std::string, std::string>;
  std::map<Key, size_t> places;
  std::vector<Trend> trends;
  for (const HistoryEntry& entry : entries) {
    const Key key{entry.machine, entry.bench,    entry.model,  entry.isa,
                  entry.engine,  entry.settings, entry.figure, entry.unit};
    const auto [place, is_new] = places.try_emplace(key, trends.size());
    if (is_new) trends.emplace_back();
    Trend& trend = trends[place->second];
    trend.last = entry;
    trend.values.push_back(entry.median);
  }
  for (Trend& trend : trends) judge(trend);
  return trends;
}

size_t falls_in(const std::vector<Trend>& trends) {
  return static_cast<size_t>(std::count_if(trends.begin(), trends.end(), [](const Trend& trend) {
    return trend.standing == Standing::kFell;
  }));
}

std::string sparkline(const std::vector<double>& values) {
  constexpr std::array<const char*, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty()) return {};
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(std::min(values.size(), kSparks));
  const auto [low, high] = std::minmax_element(begin, values.end());
  std::string out;
  for (auto value = begin; value != values.end(); ++value) {
    const double share = *high > *low ? (*value - *low) / (*high - *low) : 0.5;
    out += kHeights[static_cast<size_t>(std::lround(7.0 * share))];
  }
  return out;
}

std::string trend_table(const std::vector<Trend>& trends) {
  std::vector<std::string> machines;
  std::map<std::string, std::vector<const Trend*>> by_machine;
  for (const Trend& trend : trends) {
    std::vector<const Trend*>& rows = by_machine[trend.last.machine];
    if (rows.empty()) machines.push_back(trend.last.machine);
    rows.push_back(&trend);
  }
  std::string out;
  for (const std::string& machine : machines) machine_table(out, by_machine.at(machine));
  return out + fmt::format(
                   "{} of {} figures fell: worse than the median of at least {} earlier runs of "
                   "the same machine class\nby more than {:.0f} % of it and {:g} of their "
                   "deviations (median distance from the median x {})\n",
                   falls_in(trends), trends.size(), kEarlierMin, 100.0 * kFallShare,
                   kFallDeviations, kNormal);
}

}  // namespace bulkhead::apps
