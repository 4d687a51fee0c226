// Takes kv_b_proj of latent attention apart: by head, and what makes keys from what makes values.
//
// Threads: one call at a time. Invariants: keys are BF16, values have the format of their place,
// with the file's codes and scales where these are of that format; holds the rows that make one
// tensor's keys in BF16 besides their place.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "model/model_weights.h"
#include "model/tensor_convert.h"

namespace bulkhead::model {

class LatentRows {
 public:
  explicit LatentRows(TensorConverter& converter) : converter_(converter) {}

  // Of each head the rows that make keys, transposed, and those that make values. The places are
  // in an arena that the caller fills: they are const for everyone else.
  base::Status key_values(const TensorInfo& source, const MlaWeights& place);

 private:
  base::Status keys(const TensorInfo& source, const UnitRows& of_keys,
                    std::span<const kernels::PackedWeights> places);

  TensorConverter& converter_;
  std::vector<quant::Bf16> rows_;  // that make the tensor's keys, row-major
};

}  // namespace bulkhead::model
