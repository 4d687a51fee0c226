#include "model/write/row_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/block_formats.h"

namespace bulkhead::model::write {
namespace {

// The row of the file that belongs at row `r`, where rows of a group stand as interleaved pairs.
int64_t stored_row(int64_t r, int64_t group) {
  const int64_t inside = r % group;
  const int64_t half = group / 2;
  return r - inside + (inside < half ? 2 * inside : 2 * (inside - half) + 1);
}

}  // namespace

base::Status RowSource::read_stored(const TensorInfo& tensor, formats::RowRange rows,
                                    std::span<float> out) {
  if (tensor.quantised != nullptr) {
    return formats::decode_rows(checkpoint_.files(), tensor, rows, decode_, out);
  }
  const TypeUnit unit = unit_of(tensor.type);
  const uint64_t row_bytes = tensor.shape.back() / unit.elements * unit.bytes;
  bytes_.resize(static_cast<size_t>(row_bytes) * static_cast<size_t>(rows.count));
  BH_TRY(checkpoint_.read(tensor, row_bytes * static_cast<uint64_t>(rows.begin), bytes_));
  decode_elements(tensor.type, bytes_, out);
  return {};
}

base::Status RowSource::read(const TensorInfo& tensor, formats::RowRange rows,
                             int64_t interleaved_group, std::span<float> out) {
  const auto columns = static_cast<int64_t>(tensor.shape.back());
  if (interleaved_group == 0) {
    BH_TRY(read_stored(tensor, rows, out));
  } else {
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t row = stored_row(rows.begin + i, interleaved_group);
      BH_TRY(
          read_stored(tensor, {.begin = row, .count = 1},
                      out.subspan(static_cast<size_t>(i * columns), static_cast<size_t>(columns))));
    }
  }
  const auto bad =
      std::find_if_not(out.begin(), out.end(), [](float v) { return std::isfinite(v); });
  if (bad == out.end()) return {};
  return base::corrupt(fmt::format(
      "{}: tensor \"{}\": row {}, column {} is not finite", checkpoint_.file_name(tensor),
      tensor.name, rows.begin + (bad - out.begin()) / columns, (bad - out.begin()) % columns));
}

}  // namespace bulkhead::model::write
