#include "apps/bench/reproduce/table_history.h"

#include <fmt/format.h>

#include "apps/bench/history/machine.h"

namespace bulkhead::apps::reproduce {

std::vector<HistoryEntry> table_history(const Table& table, const RunFacts& facts, bool quick,
                                        const std::string& commit) {
  HistoryEntry entry;
  entry.bench = "reproduce";
  entry.date = history_date();
  entry.commit = commit;
  entry.machine = machine_class();
  entry.isa = facts.isa;
  entry.engine = "Bulkhead";
  entry.settings = fmt::format("{} threads{}", facts.threads, quick ? ", quick" : "");
  std::vector<HistoryEntry> entries;
  entries.reserve(table.rows().size());
  for (const Row& row : table.rows()) {
    if (!row.ratio) continue;
    set_figure(entry, fmt::format("{} ({})", row.published, row.measured), "x", *row.ratio);
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace bulkhead::apps::reproduce
