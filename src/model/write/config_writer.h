// The config.json of a checkpoint that has been quantised: the source's own, with what it says on
// quantisation replaced.
//
// Threads: pure functions.
// Invariants: all else keeps its very bytes. quantization_config stands where the source
// had it, else at the top, for Kimi inside text_config. FP8 alone is written as quant_method fp8
// with modules_to_not_convert; INT4, and INT4 with FP8, as compressed-tensors: modules are named by
// patterns, one for each kind of module, that hold for every layer and expert.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/write/quantise_plan.h"

namespace bulkhead::model::write {

// `text` is the source's config.json.
base::Result<std::string> quantised_config(std::string_view text, const WritePlan& plan);

}  // namespace bulkhead::model::write
