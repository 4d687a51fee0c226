// bench/history.jsonl: one line for each figure of each run, on which machine and of which commit.
//
// Threads: pure functions, but for append_history(). Invariants: lines are only ever added; what a
// file holds is believed only as far as it is checked, and what is refused is named by line and
// field. bench/history.py writes the same lines.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "base/result.h"

namespace bulkhead::apps {

struct HistoryEntry {
  std::string bench;     // "serve"
  std::string date;      // "2026-11-30"
  std::string commit;    // short, "+changes" where files differed from it
  std::string machine;   // class of machine: what may be compared with each other
  std::string model;     // empty: none in particular, as in the next three
  std::string isa;       // kernel path
  std::string engine;    // who was measured
  std::string settings;  // what else has to be equal for a comparison
  std::string figure;    // "decode 8"
  std::string unit;      // "tokens/s"
  double median = 0.0;
  std::vector<double> values;  // that it is the median of
};

// One JSON object, without the end of the line.
std::string history_line(const HistoryEntry& entry);
// Every line, in the order of the file; `name` is what errors call it. Errors: kInvalidArgument.
base::Result<std::vector<HistoryEntry>> read_history(std::istream& in, const std::string& name);
// The same of a file; kNotFound where there is none.
base::Result<std::vector<HistoryEntry>> read_history(const std::string& path);
// Adds lines at the end of the file, and makes it where there is none. Errors: kIo.
base::Status append_history(const std::string& path, const std::vector<HistoryEntry>& entries);

// Today, in UTC.
std::string history_date();
// A figure of one run, rounded to six digits.
void set_figure(HistoryEntry& entry, std::string figure, std::string unit, double value);

}  // namespace bulkhead::apps
