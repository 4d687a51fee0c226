// Rows of a checkpoint's tensor as FP32 numbers, whatever the file stores: what is quantised anew.
//
// Threads: one object per thread. Invariants: values are those of the stored format, not rounded to
// BF16 on the way, and finite; rows whose pairs a GGUF file interleaves for RoPE come in the order
// of safetensors (half-split). Memory is that of the rows asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/formats/decode.h"

namespace bulkhead::model::write {

class RowSource {
 public:
  explicit RowSource(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // `out` has rows.count times the columns. `interleaved_group`: 0, or the rows of a head whose
  // pairs are neighbours in the file.
  base::Status read(const TensorInfo& tensor, formats::RowRange rows, int64_t interleaved_group,
                    std::span<float> out);

 private:
  base::Status read_stored(const TensorInfo& tensor, formats::RowRange rows, std::span<float> out);

  const Checkpoint& checkpoint_;
  std::vector<std::byte> bytes_;
  formats::DecodeWorkspace decode_;
};

}  // namespace bulkhead::model::write
