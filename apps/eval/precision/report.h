// What `bulkhead eval precision` tells: as Markdown, as JSON and as pictures.
//
// Threads: pure functions. Invariants: everything is made from the results that are given; a pair
// whose precisions are not all there is told as not measured, and not judged.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/eval/compare.h"
#include "apps/eval/precision/drift.h"
#include "apps/eval/precision/precisions.h"
#include "apps/eval/precision/verdict.h"
#include "apps/eval/report.h"

namespace bulkhead::apps::eval {

// What was measured in one precision.
struct PrecisionResult {
  const Precision* precision = nullptr;
  std::vector<TaskResult> tasks;
  LikelySample likely;
};

struct PairReport {
  PrecisionPair pair;
  ComparedResults compared;
  std::vector<JudgedShare> judged;
  std::vector<DriftBucket> drift;
};

struct PrecisionReport {
  std::string model;
  std::string command;  // that makes it again
  std::string program;  // version and commit
  std::string drift_text;
  std::vector<PrecisionResult> results;
  std::vector<PairReport> pairs;
  std::vector<std::string> unmeasured;  // pairs whose precisions are not all there
};

// Errors: those of compare, with the pair's name; kInvalidArgument where samples are of other
// windows.
base::Result<PairReport> report_pair(const PrecisionPair& pair, const PrecisionResult& before,
                                     const PrecisionResult& after);

bool any_missed(const PrecisionReport& report);

// The judged benchmarks, a row each.
std::string verdicts_text(const PrecisionReport& report);
std::string precision_text(const PrecisionReport& report);
std::string precision_json(const PrecisionReport& report);
// File names with their SVG.
std::vector<std::pair<std::string, std::string>> precision_pictures(const PrecisionReport& report);

}  // namespace bulkhead::apps::eval
