// Measures one precision: a server of its own, the suite's questions, the likely tokens of a text.
//
// Threads: the caller's and those of suite.h. Invariants: what the folder has is not measured
// again; files that are not whole, or were made by other means, are refused by name; the server
// ends before the function returns.
#pragma once

#include <string>
#include <vector>

#include "apps/eval/options.h"
#include "apps/eval/precision/precisions.h"
#include "apps/eval/precision/report.h"
#include "apps/eval/question.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

// What is the same for all precisions.
struct Measurement {
  const EvalPrecisionOptions& options;
  std::string checkpoint;              // its digest
  std::vector<Task> tasks;             // with all their questions
  std::vector<std::string> stretches;  // of the text whose drift is measured
};

// The text that drift is measured on.
std::string drift_path(const EvalPrecisionOptions& options);

// Reads questions and text. Errors: those of their files.
base::Result<Measurement> plan_measurement(const EvalPrecisionOptions& options,
                                           std::string checkpoint);

// FOLDER/NAME.json and FOLDER/NAME.likely.json, made or gone on with. Errors: those of the server
// and of the files.
base::Result<PrecisionResult> measure(const Measurement& measurement, const Precision& precision);

// Drops what earlier runs left of this precision.
void forget(const EvalPrecisionOptions& options, const Precision& precision);

}  // namespace bulkhead::apps::eval
