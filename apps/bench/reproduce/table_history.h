// What a run of `bench reproduce` adds to the history: the ratio of each row that has one.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "apps/bench/history/history.h"
#include "apps/bench/reproduce/table.h"
#include "apps/bench/reproduce/table_json.h"

namespace bulkhead::apps::reproduce {

// A row is known by what was published and what was measured; `facts` and `quick` tell runs apart.
std::vector<HistoryEntry> table_history(const Table& table, const RunFacts& facts, bool quick,
                                        const std::string& commit);

}  // namespace bulkhead::apps::reproduce
