// Rows of a folded weight as numbers: codes times scales, by the definition of its format.
//
// Threads: pure functions; a workspace belongs to one call at a time.
// Invariants: the values are those of the format's own library, bit for bit. FP8: code times scale
// in FP32. Four bits: (code - zero point) times scale, rounded to the type the scales have. A
// caller that asks for BF16 gets that value rounded once more, to nearest even. Scales are finite
// and above zero, and other parts hold what their weight's shape allows, or there is an error that
// names file, tensor and byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"
#include "model/tensor_files.h"
#include "quant/bf16.h"

namespace bulkhead::model::formats {

struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// Memory that is kept between calls. It grows to the parts of the rows that are read at once.
struct DecodeWorkspace {
  std::vector<std::byte> bytes;
  std::vector<uint32_t> words;
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  std::vector<uint32_t> groups;
  std::vector<float> products;
  std::vector<quant::Bf16> narrow_products;
};

// How many rows are best read at once, where the format has a wish: AWQ and GPTQ store a weight's
// rows as columns, and fewer of them cost more reads than bytes. 0: no wish.
int64_t preferred_rows(const QuantisedWeight& weight);

// `tensor` is folded and `rows` lie inside it. For AWQ rows.begin is a multiple of 8, and so is
// rows.count. `out` has rows.count times the columns. T is float or quant::Bf16.
template <typename T>
base::Status decode_rows(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                         DecodeWorkspace& space, std::span<T> out);

// Where element `row`, `column` of a folded tensor has its code: a byte of the codes' file.
uint64_t code_offset(const TensorInfo& tensor, int64_t row, int64_t column);

}  // namespace bulkhead::model::formats
