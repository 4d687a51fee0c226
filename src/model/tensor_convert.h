// Reads one tensor of a checkpoint, chunk by chunk, and leaves it in memory in the form it is used:
// BF16, or codes and scales, taken over from the checkpoint where it has them, else made here.
//
// Threads: one call at a time; chunks are converted on the pool's workers.
// Invariants: at most one chunk per worker is held: kChunkElements, or one panel of rows where that
// is longer, or what formats/decode.h prefers, or the 128 rows that share FP8 scales; a value that
// is not finite, or becomes so in BF16, is an error that names tensor and byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/thread_pool.h"
#include "kernels/packed_weights.h"
#include "model/checkpoint.h"
#include "model/formats/decode.h"
#include "quant/bf16.h"
#include "quant/fp8.h"

namespace bulkhead::model {

// Rows come in units (a head) of which `turned` from `begin` on are rotated and stored as pairs of
// neighbours; they are put into half-split order: of those, row 2i goes to i and row 2i+1 to
// i + turned/2. 0: none is rotated, or they are in half-split order already.
struct TurnedRows {
  int64_t unit = 0;
  int64_t begin = 0;
  int64_t turned = 0;

  // Where row `row` of the file goes.
  int64_t place(int64_t row) const;
};

// Rows come in units (a head), and of each of them those from `begin` on are meant, `count` of
// them.
struct UnitRows {
  int64_t unit = 0;
  int64_t begin = 0;
  int64_t count = 0;

  // Which of its unit's rows that are meant a row is, or -1.
  int64_t index(int64_t row) const;
};

class TensorConverter {
 public:
  TensorConverter(const Checkpoint& checkpoint, device::ThreadPool& pool);

  // `source` is [rows, columns], plain or folded, and goes to the rows of `place` from `row_begin`
  // on, in the format of `place`. BF16: values are rounded to nearest even. FP8 and INT4: codes
  // and scales are those of the file where its format is the same (formats/codes.h), else values
  // are quantised from what the file means, in blocks of 128 rows of this tensor and in groups.
  // The place is in an arena that the caller fills: it is const for everyone else.
  base::Status matrix(const TensorInfo& source, const kernels::PackedWeights& place,
                      int64_t row_begin, const TurnedRows& turned);
  // The same with some rows of each unit, to a matrix for each: places[unit], all in one format.
  // Blocks are those of the whole tensor, whatever units lie in them.
  base::Status matrices(const TensorInfo& source, const UnitRows& meant,
                        std::span<const kernels::PackedWeights> places);
  // And into plain rows of BF16, one unit's behind the other's.
  base::Status table(const TensorInfo& source, const UnitRows& meant, quant::Bf16* out);
  // `source` is a vector, or a matrix taken as one; values go to `out` in FP32, elements where
  // rows would go.
  base::Status vector(const TensorInfo& source, const TurnedRows& turned, std::span<float> out);

 private:
  // A chunk of rows on its way; what of it is used depends on the format.
  struct Workspace {
    std::vector<std::byte> bytes;
    std::vector<float> floats;
    std::vector<quant::Bf16> values;
    std::vector<uint8_t> codes;
    std::vector<float> fp8_scales;
    std::vector<quant::Bf16> int4_scales;
    formats::DecodeWorkspace decode;
  };
  using Rows = formats::RowRange;
  // Row `row` of the packed matrix at `data`; data null: nowhere.
  struct Spot {
    const std::byte* data = nullptr;
    int64_t row = 0;

    bool operator==(const Spot&) const = default;
  };

  template <typename Place>
  base::Status each_chunk(const TensorInfo& source, const UnitRows& meant, int64_t rows_step,
                          Place&& place);
  template <typename T>
  base::Status read(const TensorInfo& source, Rows rows, Workspace& space, std::vector<T>& out);
  base::Status read_plain(const TensorInfo& source, Rows rows, Workspace& space,
                          std::vector<float>& out);
  base::Status read_plain(const TensorInfo& source, Rows rows, Workspace& space,
                          std::vector<quant::Bf16>& out);
  base::Status read_fp8(const TensorInfo& source, Rows rows, Workspace& space);
  base::Status read_int4(const TensorInfo& source, Rows rows, Workspace& space);
  // Rows of `source` go where spot_of(row) says, in the format given.
  template <typename SpotOf>
  base::Status place_rows(const TensorInfo& source, Rows rows, kernels::WeightFormat format,
                          const SpotOf& spot_of, Workspace& space);
  template <typename SpotOf>
  base::Status place_chunks(const TensorInfo& source, const UnitRows& meant,
                            kernels::WeightFormat format, const SpotOf& spot_of);

  const Checkpoint& checkpoint_;
  device::ThreadPool& pool_;
  std::vector<Workspace> workspaces_;  // one per worker
};

}  // namespace bulkhead::model
