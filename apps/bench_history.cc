#include <iostream>

#include "apps/bench/history/history.h"
#include "apps/bench/history/trend.h"
#include "commands.h"

namespace bulkhead::apps {

int run_bench_history(const BenchHistoryOptions& options) {
  const auto entries = read_history(options.file);
  if (!entries.ok()) {
    std::cerr << "error: " << entries.error().message << '\n';
    return 2;
  }
  const std::vector<Trend> trends = trends_of(*entries);
  std::cout << trend_table(trends);
  return options.fail_on_fall && falls_in(trends) > 0 ? 1 : 0;
}

}  // namespace bulkhead::apps
