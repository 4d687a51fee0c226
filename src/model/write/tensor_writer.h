// Turns one tensor of a checkpoint into its parts in a file, block of rows by block of rows.
//
// Threads: one call at a time; blocks of rows are converted on the pool's workers.
// Invariants: what is written does not depend on the number of threads. A worker holds 128 rows at
// most: 4 bytes an element, and what it writes; never a tensor. What a reader would refuse is an
// error that names tensor and place: a value that is not finite, or becomes so in BF16 or as codes
// of INT4, one that is too large for FP8, and codes, scales and shapes that are copied and do not
// hold what they must (formats/codes.h).
#pragma once

#include <vector>

#include "base/result.h"
#include "device/thread_pool.h"
#include "model/write/quantise_plan.h"
#include "model/write/row_source.h"
#include "model/write/tensor_error.h"
#include "quant/bf16.h"

namespace bulkhead::model::write {

class TensorWriter {
 public:
  TensorWriter(const Checkpoint& checkpoint, device::ThreadPool& pool, quant::ScaleRule rule);

  // The parts are tensors number first_part and following of `out`. Zeros where nothing is
  // quantised anew.
  base::Result<TensorError> write(const TensorJob& job, const SafetensorsWriter& out,
                                  size_t first_part);

 private:
  struct Workspace {
    explicit Workspace(const Checkpoint& checkpoint) : rows(checkpoint) {}
    RowSource rows;
    std::vector<float> values;
    std::vector<uint8_t> codes;
    std::vector<uint32_t> words;
    std::vector<float> scales;
    std::vector<quant::Bf16> narrow;
    formats::DecodeWorkspace decode;
  };
  // Where a block of rows goes.
  struct Target {
    const SafetensorsWriter& out;
    size_t first_part;
  };

  base::Status copy(const TensorInfo& source, const Target& target);
  base::Status copy_reordered(const TensorJob& job, const Target& target);
  base::Status copy_codes(const TensorJob& job, const Target& target);
  base::Status copy_fp8_rows(const TensorJob& job, formats::RowRange rows, const Target& target,
                             Workspace& space);
  base::Status copy_int4_rows(const TensorJob& job, formats::RowRange rows, const Target& target,
                              Workspace& space);
  base::Status copy_fp8_scales(const TensorInfo& scales, const Target& target);
  template <typename Place>
  base::Status each_block(int64_t rows, Place&& place);
  base::Result<TensorError> convert(const TensorJob& job, const Target& target);
  base::Result<TensorError> convert_rows(const TensorJob& job, formats::RowRange rows,
                                         const Target& target, Workspace& space);
  base::Status widen(const TensorJob& job, formats::RowRange rows, const Target& target,
                     Workspace& space);
  base::Result<TensorError> to_fp8(const TensorJob& job, formats::RowRange rows,
                                   const Target& target, Workspace& space);
  base::Result<TensorError> to_int4(const TensorJob& job, formats::RowRange rows,
                                    const Target& target, Workspace& space);

  const Checkpoint& checkpoint_;
  device::ThreadPool& pool_;
  const quant::ScaleRule rule_;
  std::vector<Workspace> workspaces_;  // one per worker
};

}  // namespace bulkhead::model::write
