#include "model/tensor_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

#include "kernels/packed_weights.h"
#include "model/block_formats.h"

namespace bulkhead::model {
namespace {

// 64 Ki elements are 256 KiB of floats: a worker's chunk stays in its L2 cache.
constexpr int64_t kChunkElements = 64 << 10;

int64_t columns_of(const TensorInfo& tensor) { return static_cast<int64_t>(tensor.shape.back()); }

uint64_t bytes_of(TensorType type, int64_t elements) {
  const TypeUnit unit = unit_of(type);
  return static_cast<uint64_t>(elements) / unit.elements * unit.bytes;
}

bool is_finite(quant::Bf16 value) { return (value & 0x7f80u) != 0x7f80u; }

bool all_finite(std::span<const quant::Bf16> values) {
  bool out = true;
  for (const quant::Bf16 value : values) out &= is_finite(value);  // no early end: a vector loop
  return out;
}

// Where the element's code, or the block it is in, lies in the file.
uint64_t byte_of(const TensorInfo& tensor, int64_t element) {
  if (tensor.quantised != nullptr) {
    return formats::code_offset(tensor, element / columns_of(tensor), element % columns_of(tensor));
  }
  const int64_t unit = unit_of(tensor.type).elements;
  return tensor.offset + bytes_of(tensor.type, element / unit * unit);
}

base::Error not_finite(const Checkpoint& checkpoint, const TensorInfo& tensor, int64_t element) {
  const std::string& stored = tensor.quantised ? tensor.quantised->codes.name : tensor.name;
  return base::corrupt(fmt::format("{}: byte {}: tensor \"{}\": element {} is not finite in BF16",
                                   checkpoint.file_name(tensor), byte_of(tensor, element), stored,
                                   element));
}

// Where row `r` of a group of interleaved pairs belongs.
int64_t half_split_row(int64_t r, int64_t group) {
  const int64_t inside = r % group;
  return r - inside + inside / 2 + inside % 2 * (group / 2);
}

}  // namespace

TensorConverter::TensorConverter(const Checkpoint& checkpoint, device::ThreadPool& pool)
    : checkpoint_(checkpoint), pool_(pool), workspaces_(pool.threads()) {}

// Leaves rows [row, row + rows) in space.values.
base::Status TensorConverter::convert_rows(const TensorInfo& source, int64_t row, int64_t rows,
                                           Workspace& space) {
  const int64_t columns = columns_of(source);
  const auto count = static_cast<size_t>(rows * columns);
  const uint64_t begin = bytes_of(source.type, row * columns);
  space.values.resize(count);
  if (source.quantised != nullptr) {
    BH_TRY(formats::decode_rows(checkpoint_.files(), source, {.begin = row, .count = rows},
                                space.decode, std::span(space.values)));
  } else if (source.type == TensorType::kBf16) {
    BH_TRY(checkpoint_.read(source, begin, std::as_writable_bytes(std::span(space.values))));
  } else {
    space.bytes.resize(static_cast<size_t>(bytes_of(source.type, rows * columns)));
    space.floats.resize(count);
    BH_TRY(checkpoint_.read(source, begin, space.bytes));
    decode_elements(source.type, space.bytes, space.floats);
    std::transform(space.floats.begin(), space.floats.end(), space.values.begin(),
                   quant::float_to_bf16);
  }
  if (all_finite(space.values)) return {};
  const auto bad = std::find_if_not(space.values.begin(), space.values.end(), is_finite);
  return not_finite(checkpoint_, source, row * columns + (bad - space.values.begin()));
}

base::Status TensorConverter::place_rows(const TensorInfo& source, int64_t row, int64_t rows,
                                         const MatrixTarget& target, Workspace& space) {
  BH_TRY(convert_rows(source, row, rows, space));
  const int64_t columns = columns_of(source);
  const auto row_bytes = static_cast<size_t>(columns) * sizeof(quant::Bf16);
  const quant::Bf16* values = space.values.data();
  if (target.interleaved_group > 0) {
    space.reordered.resize(space.values.size());
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(space.reordered.data() + half_split_row(r, target.interleaved_group) * columns,
                  values + r * columns, row_bytes);
    }
    values = space.reordered.data();
  }
  const int64_t place = target.row_begin + row;
  if (target.packed) {
    kernels::pack_rows(values, place, rows, columns, target.data);
  } else {
    std::memcpy(target.data + place * columns, values, row_bytes * static_cast<size_t>(rows));
  }
  return {};
}

base::Status TensorConverter::matrix(const TensorInfo& source, const MatrixTarget& target) {
  const auto rows = static_cast<int64_t>(source.shape.front());
  // A chunk holds whole groups, and whole panels where a group's size allows it.
  const int64_t step = target.interleaved_group > 0
                           ? std::lcm(target.interleaved_group, kernels::kPanelColumns)
                           : kernels::kPanelColumns;
  const int64_t wish = std::max(kChunkElements / columns_of(source),
                                source.quantised ? formats::preferred_rows(*source.quantised) : 0);
  const int64_t chunk_rows = std::max<int64_t>(1, wish / step) * step;
  const int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  std::mutex mutex;
  base::Status failure;
  pool_.run(static_cast<size_t>(chunks), [&](size_t chunk, unsigned worker) {
    const int64_t row = static_cast<int64_t>(chunk) * chunk_rows;
    base::Status status =
        place_rows(source, row, std::min(chunk_rows, rows - row), target, workspaces_[worker]);
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (failure.ok()) failure = std::move(status);
  });
  return failure;
}

// Leaves the whole tensor in space.floats.
base::Status TensorConverter::read_floats(const TensorInfo& source, Workspace& space) {
  space.floats.resize(static_cast<size_t>(source.elements));
  if (source.quantised != nullptr) {
    const formats::RowRange all = {.begin = 0, .count = static_cast<int64_t>(source.shape.front())};
    return formats::decode_rows(checkpoint_.files(), source, all, space.decode,
                                std::span(space.floats));
  }
  space.bytes.resize(static_cast<size_t>(source.bytes));
  BH_TRY(checkpoint_.read(source, 0, space.bytes));
  decode_elements(source.type, space.bytes, space.floats);
  return {};
}

base::Status TensorConverter::vector(const TensorInfo& source, int64_t interleaved_group,
                                     std::span<float> out) {
  BH_CHECK(out.size() == source.elements, "a place of another size than its tensor");
  Workspace& space = workspaces_.front();
  BH_TRY(read_floats(source, space));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (!std::isfinite(space.floats[i])) return not_finite(checkpoint_, source, index);
    const int64_t place = interleaved_group > 0 ? half_split_row(index, interleaved_group) : index;
    out[static_cast<size_t>(place)] = space.floats[i];
  }
  return {};
}

}  // namespace bulkhead::model
