// Reads one tensor of a checkpoint, chunk by chunk, and leaves it in memory in the form it is used.
//
// Threads: one call at a time; chunks are converted on the pool's workers.
// Invariants: at most one chunk per worker is held: kChunkElements, or one panel of rows where that
// is longer, or what formats/decode.h prefers; a value that is not finite, or becomes so in BF16,
// is an error that names tensor and byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/thread_pool.h"
#include "model/checkpoint.h"
#include "model/formats/decode.h"
#include "quant/bf16.h"

namespace bulkhead::model {

// Where the rows of a matrix go.
struct MatrixTarget {
  quant::Bf16* data = nullptr;  // packed_bytes(n, columns), or plain rows
  bool packed = true;
  int64_t row_begin = 0;  // of the tensor's first row inside `data`
  // Not 0: rows come as interleaved pairs inside groups of this many (a head) and are put back into
  // half-split order: row 2i of a group goes to i, row 2i+1 to i + group/2.
  int64_t interleaved_group = 0;
};

class TensorConverter {
 public:
  TensorConverter(const Checkpoint& checkpoint, device::ThreadPool& pool);

  // `source` is [rows, columns], plain or folded; values are rounded to BF16, to nearest even.
  base::Status matrix(const TensorInfo& source, const MatrixTarget& target);
  // `source` is a vector, or a matrix taken as one; values go to `out` in FP32, pairs put back as
  // in MatrixTarget.
  base::Status vector(const TensorInfo& source, int64_t interleaved_group, std::span<float> out);

 private:
  struct Workspace {
    std::vector<std::byte> bytes;
    std::vector<float> floats;
    std::vector<quant::Bf16> values;
    std::vector<quant::Bf16> reordered;
    formats::DecodeWorkspace decode;
  };

  base::Status read_floats(const TensorInfo& source, Workspace& space);
  base::Status convert_rows(const TensorInfo& source, int64_t row, int64_t rows, Workspace& space);
  base::Status place_rows(const TensorInfo& source, int64_t row, int64_t rows,
                          const MatrixTarget& target, Workspace& space);

  const Checkpoint& checkpoint_;
  device::ThreadPool& pool_;
  std::vector<Workspace> workspaces_;  // one per worker
};

}  // namespace bulkhead::model
