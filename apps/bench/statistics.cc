#include "apps/bench/statistics.h"

#include <algorithm>
#include <numeric>

namespace bulkhead::apps {

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0.0;
  const double rank = static_cast<double>(sorted.size() - 1) * std::clamp(share, 0.0, 1.0);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - static_cast<double>(below));
}

Summary summarize(std::vector<double> values) {
  Summary summary;
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  summary.count = values.size();
  summary.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  summary.p50 = percentile(values, 0.50);
  summary.p90 = percentile(values, 0.90);
  summary.p95 = percentile(values, 0.95);
  summary.p99 = percentile(values, 0.99);
  summary.max = values.back();
  return summary;
}

}  // namespace bulkhead::apps
