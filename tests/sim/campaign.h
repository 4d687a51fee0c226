// Counts, class by class, what is noticed by what: one fault a run, beside the same run without it.
//
// Threads: one. Invariants: a fault counts as noticed by a mechanism when that mechanism counted
// more than in the run without the fault; as harmless when nothing noticed it and every answer was
// right; anything else is silent, and fails the campaign. The runs without a fault are where false
// alarms would show.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "sim/faults.h"
#include "sim/judge.h"

namespace bulkhead::sim {

struct CampaignOptions {
  uint64_t seed = 1;
  uint64_t faults = 715;  // of each class
};

// One class of faults.
struct MatrixRow {
  FaultKind kind = FaultKind::kDrop;
  uint64_t struck = 0;
  uint64_t noticed = 0;   // by anything
  uint64_t harmless = 0;  // not noticed, and no wrong byte got out
  uint64_t silent = 0;    // a wrong token, a leak, a hang: whatever the simulator fails a run for
  uint64_t leaks_unwatched = 0;  // runs with a wrong token when the check only observes
  std::array<uint64_t, kMechanisms> by{};
};

struct Matrix {
  std::vector<MatrixRow> rows;
  RunStats totals;  // of all runs
  RunStats clean;   // of those without a fault
  uint64_t runs = 0;
  uint64_t clean_runs = 0;
  uint64_t false_alarms = 0;
  std::vector<std::string> failures;

  bool passed() const;
};

// `progress` hears a line a class.
Matrix run_campaign(const CampaignOptions& options, std::ostream& progress);
// As docs/integrity.md has it.
std::string to_markdown(const Matrix& matrix);

}  // namespace bulkhead::sim
