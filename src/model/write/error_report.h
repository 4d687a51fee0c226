// What quantising did to a model, tensor by tensor and summed up by kind.
//
// Threads: pure functions. Figures are of weights alone: no activations are looked at.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/write/quantise_plan.h"
#include "model/write/tensor_error.h"

namespace bulkhead::model::write {

// A kind of tensor in one format.
struct KindSummary {
  std::string_view kind;
  Action action = Action::kCopy;
  size_t tensors = 0;
  uint64_t elements = 0;
  uint64_t source_bytes = 0;
  uint64_t bytes = 0;
  TensorError error;  // sums over the tensors
};

// In the order of the file. `errors` of the plan's jobs; empty: not known yet.
std::vector<KindSummary> summarise(const WritePlan& plan, const std::vector<TensorError>& errors);

// Numbers of the jobs with the largest relative error, worst first.
std::vector<size_t> worst_jobs(const WritePlan& plan, const std::vector<TensorError>& errors,
                               size_t count);

// quantize-report.json.
std::string report_json(const WritePlan& plan, const std::vector<TensorError>& errors);

}  // namespace bulkhead::model::write
