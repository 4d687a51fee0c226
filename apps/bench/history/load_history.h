// What a run of `bench serve` or `bench replay` adds to the history.
//
// Threads: pure functions, but for append_load_history().
#pragma once

#include <string>
#include <vector>

#include "apps/bench/history/history.h"
#include "apps/bench/options.h"
#include "apps/bench/report.h"

namespace bulkhead::apps {

// Everything but the figure. `isa` and `engine` are the server's, empty where it does not say.
HistoryEntry load_entry(const BenchServeOptions& options, const BenchReport& report,
                        const std::string& engine, const std::string& isa,
                        const std::string& commit);
// One entry a figure; none of a run in which a request failed, whose figures are of fewer requests.
std::vector<HistoryEntry> load_figures(const HistoryEntry& of, const BenchReport& report);
base::Status append_load_history(const BenchServeOptions& options, const BenchReport& report,
                                 const std::string& engine, const std::string& isa,
                                 const std::string& commit);

}  // namespace bulkhead::apps
