// Brings the projections of latent attention into the order the forward pass uses: rotated rows in
// half-split order, the two halves of the up projection apart and by head.
//
// Threads: one call at a time. Invariant: holds one tensor's rows in BF16 besides their place.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/model_weights.h"
#include "model/tensor_convert.h"

namespace bulkhead::model {

// Rows come in units (a head) of which `turned` from `begin` on are rotated and stored as pairs of
// neighbours; 0: none is, or they are in half-split order already.
struct TurnedRows {
  int64_t unit = 0;
  int64_t begin = 0;
  int64_t turned = 0;

  // Where row `row` of the file goes.
  int64_t place(int64_t row) const;
};

class LatentRows {
 public:
  explicit LatentRows(TensorConverter& converter) : converter_(converter) {}

  // The places are in an arena that the caller fills: they are const for everyone else.
  base::Status matrix(const TensorInfo& source, const kernels::PackedWeights& place,
                      int64_t row_begin, TurnedRows rows);
  base::Status vector(const TensorInfo& source, const float* place, TurnedRows rows);
  // kv_b_proj: of each head the rows that make keys, transposed, and those that make values.
  base::Status key_values(const TensorInfo& source, const MlaWeights& place);

 private:
  base::Status read(const TensorInfo& source);

  TensorConverter& converter_;
  std::vector<quant::Bf16> rows_;  // of the tensor at hand, row-major
};

}  // namespace bulkhead::model
