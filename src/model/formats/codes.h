// Rows of a folded weight as codes and scales, for the kernels that multiply with them: taken over
// as they are stored, nothing is rounded again.
//
// Threads: pure functions; a workspace belongs to one call at a time.
// Invariants: code times scale is the value that the file means, exactly; every code stands for a
// finite value, and scales are finite and above zero, FP8 ones at most kFp8ScaleMax, or there is an
// error that names file, tensor and byte.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/packed_weights.h"
#include "model/formats/decode.h"
#include "model/tensor.h"
#include "model/tensor_files.h"
#include "quant/bf16.h"
#include "quant/fp8.h"
#include "quant/fp8_blocks.h"
#include "quant/int4_groups.h"

namespace bulkhead::model::formats {

// The format whose codes and scales the tensor's own are: FP8 in blocks of whole 128 columns;
// symmetric INT4 rows with BF16 scales of whole groups of 32 columns. Everything else is BF16 to
// the kernels: zero points, scales of FP16 (a BF16 has fewer bits of mantissa), rows stored as
// columns.
kernels::WeightFormat native_format(const TensorInfo& tensor);

// What the kernels' scales belong to; a row's last group may be shorter.
inline constexpr int64_t kFp8GroupColumns = quant::kFp8Block;
inline constexpr int64_t kInt4GroupColumns = quant::kInt4Group;
// Kernels multiply FP8 scales by 2^56 (kernels/fp8_panels.h); no weight has one near this.
inline constexpr float kFp8ScaleMax = 0x1p64f;
inline int64_t groups_of(int64_t columns, int64_t group) { return (columns + group - 1) / group; }

// `tensor` has that native format and `rows` lie inside it. Codes are [rows][columns], scales
// [rows][groups of 128 or 32 columns]: a block's or a longer group's scale is repeated.
base::Status read_fp8_rows(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                           DecodeWorkspace& space, std::span<quant::Fp8> codes,
                           std::span<float> scales);
// Codes are q + 8.
base::Status read_int4_rows(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                            DecodeWorkspace& space, std::span<uint8_t> codes,
                            std::span<quant::Bf16> scales);

// The first code of a group whose value is not finite in BF16, null where there is none.
const uint8_t* first_infinite_int4(std::span<const uint8_t> codes, float scale);
// What is said of rows whose values need an FP8 scale beyond kFp8ScaleMax.
base::Error too_large_for_fp8(const TensorFiles& files, const TensorInfo& tensor, RowRange rows);

}  // namespace bulkhead::model::formats
