// The tables of `bulkhead quantize`, as text.
//
// Threads: pure functions. Invariant: sizes are binary (GiB, MiB), and of what would be written.
#pragma once

#include <string>
#include <vector>

#include "model/model_config.h"
#include "model/weight_recipe.h"
#include "model/write/error_report.h"
#include "model/write/quantise_plan.h"

namespace bulkhead::apps {

// Sizes by kind in BF16, in the published FP8 form and in the recipe, the totals, and what each of
// `ranks` ranks holds.
std::string config_table(const model::ModelConfig& config, const model::WeightRecipe& recipe,
                         int ranks);

// Sizes of a checkpoint's tensors by kind, before and after; `ranks` as above.
std::string plan_table(const model::write::WritePlan& plan, int ranks);

// Errors by kind, and the ten tensors with the largest.
std::string error_tables(const model::write::WritePlan& plan,
                         const std::vector<model::write::TensorError>& errors);

}  // namespace bulkhead::apps
