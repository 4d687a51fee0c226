// Folds the stored tensors that make one quantised weight into one tensor with the name and the
// shape of the plain weight, so that nothing behind the checkpoint tells the two apart.
//
// Threads: pure functions.
// Invariants: a folded tensor's parts fit each other and the configuration: types, shapes, group
// sizes. Each stored tensor is in the result once, as itself or as a part of one other; a part
// without the rest of its weight is an error. Names decide by their ends alone: a prefix, or what
// the model does with a tensor, plays no role.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/formats/quant_config.h"
#include "model/tensor.h"
#include "model/tensor_files.h"

namespace bulkhead::model::formats {

// `stored` are the tensors of all of `files`, no name twice; a weight's parts may lie in different
// files. Errors name file and tensor.
base::Result<std::vector<TensorInfo>> fold_tensors(std::vector<TensorInfo> stored,
                                                   const QuantConfig& config,
                                                   const TensorFiles& files);

}  // namespace bulkhead::model::formats
