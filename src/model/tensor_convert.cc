#include "model/tensor_convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "model/block_formats.h"
#include "model/formats/codes.h"
#include "quant/fp8_blocks.h"
#include "quant/int4_groups.h"

namespace bulkhead::model {
namespace {

using formats::kFp8GroupColumns;
using formats::kInt4GroupColumns;
using kernels::WeightFormat;

// 64 Ki elements are 256 KiB of floats: a worker's chunk stays in its L2 cache.
constexpr int64_t kChunkElements = 64 << 10;
// Rows of a tensor that share FP8 scales.
constexpr int64_t kFp8BlockRows = quant::kFp8Block;
// FP8 as published checkpoints have it: there a search gains next to nothing. It gains much at four
// bits, and costs loading some 40 s of processor time for a billion weights.
constexpr quant::ScaleRule kFp8Rule = quant::ScaleRule::kAmax;
constexpr quant::ScaleRule kInt4Rule = quant::ScaleRule::kSearch;

int64_t columns_of(const TensorInfo& tensor) { return static_cast<int64_t>(tensor.shape.back()); }

uint64_t bytes_of(TensorType type, int64_t elements) {
  const TypeUnit unit = unit_of(type);
  return static_cast<uint64_t>(elements) / unit.elements * unit.bytes;
}

bool is_finite(quant::Bf16 value) { return (value & 0x7f80u) != 0x7f80u; }
bool is_finite(float value) { return std::isfinite(value); }

// The first value that is not finite, or a negative number.
template <typename T>
int64_t first_not_finite(std::span<const T> values) {
  bool all = true;
  for (const T value : values) all &= is_finite(value);  // no early end: a vector loop
  if (all) return -1;
  return std::ranges::find_if_not(values, [](T value) { return is_finite(value); }) -
         values.begin();
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

}  // namespace

int64_t TurnedRows::place(int64_t row) const {
  if (turned == 0) return row;
  const int64_t pair = row % unit - begin;
  if (pair < 0 || pair >= turned) return row;
  return row - pair + pair % 2 * (turned / 2) + pair / 2;
}

struct TensorConverter::Target {
  const kernels::PackedWeights& place;
  int64_t row_begin;
  const TurnedRows& turned;
};

TensorConverter::TensorConverter(const Checkpoint& checkpoint, device::ThreadPool& pool)
    : checkpoint_(checkpoint), pool_(pool), workspaces_(pool.threads()) {}

// Calls place(rows, workspace) for chunks that are multiples of `rows_step` rows.
template <typename Place>
base::Status TensorConverter::each_chunk(const TensorInfo& source, int64_t rows_step,
                                         Place&& place) {
  const auto rows = static_cast<int64_t>(source.shape.front());
  const int64_t wish = std::max(kChunkElements / columns_of(source),
                                source.quantised ? formats::preferred_rows(*source.quantised) : 0);
  const int64_t chunk_rows = std::max<int64_t>(1, wish / rows_step) * rows_step;
  const int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  std::mutex mutex;
  base::Status failure;
  pool_.run(static_cast<size_t>(chunks), [&](size_t chunk, unsigned worker) {
    const int64_t row = static_cast<int64_t>(chunk) * chunk_rows;
    base::Status status =
        place(Rows{.begin = row, .count = std::min(chunk_rows, rows - row)}, workspaces_[worker]);
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (failure.ok()) failure = std::move(status);
  });
  return failure;
}

// The rows in FP32, or rounded to BF16; `out` may be the workspace's own.
template <typename T>
base::Status TensorConverter::read(const TensorInfo& source, Rows rows, Workspace& space,
                                   std::vector<T>& out) {
  const int64_t columns = columns_of(source);
  out.resize(static_cast<size_t>(rows.count * columns));
  if (source.quantised != nullptr) {
    BH_TRY(formats::decode_rows(checkpoint_.files(), source, rows, space.decode, std::span(out)));
  } else {
    BH_TRY(read_plain(source, rows, space, out));
  }
  const int64_t bad = first_not_finite<T>(out);
  if (bad >= 0) return not_finite(checkpoint_, source, rows.begin * columns + bad);
  return {};
}

base::Status TensorConverter::read_plain(const TensorInfo& source, Rows rows, Workspace& space,
                                         std::vector<float>& out) {
  const int64_t columns = columns_of(source);
  space.bytes.resize(static_cast<size_t>(bytes_of(source.type, rows.count * columns)));
  BH_TRY(checkpoint_.read(source, bytes_of(source.type, rows.begin * columns), space.bytes));
  decode_elements(source.type, space.bytes, out);
  return {};
}

base::Status TensorConverter::read_plain(const TensorInfo& source, Rows rows, Workspace& space,
                                         std::vector<quant::Bf16>& out) {
  if (source.type == TensorType::kBf16) {
    return checkpoint_.read(source, bytes_of(source.type, rows.begin * columns_of(source)),
                            std::as_writable_bytes(std::span(out)));
  }
  BH_TRY(read(source, rows, space, space.floats));
  std::ranges::transform(space.floats, out.begin(), quant::float_to_bf16);
  return {};
}

// Leaves codes in space.codes and a scale for each row and 128 columns in space.fp8_scales.
// `rows` are whole blocks of the tensor.
base::Status TensorConverter::read_fp8(const TensorInfo& source, Rows rows, Workspace& space) {
  const int64_t columns = columns_of(source);
  const int64_t groups = formats::groups_of(columns, kFp8GroupColumns);
  space.codes.resize(static_cast<size_t>(rows.count * columns));
  space.fp8_scales.resize(static_cast<size_t>(rows.count * groups));
  if (formats::native_format(source) == WeightFormat::kFp8) {
    return formats::read_fp8_rows(checkpoint_.files(), source, rows, space.decode, space.codes,
                                  space.fp8_scales);
  }
  BH_TRY(read(source, rows, space, space.floats));
  for (int64_t row = 0; row < rows.count; row += kFp8BlockRows) {
    const int64_t count = std::min(kFp8BlockRows, rows.count - row);
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t column = group * kFp8GroupColumns;
      const int64_t at = row * columns + column;
      const float scale = quant::quantise_fp8_block(space.floats.data() + at, columns, count,
                                                    std::min(kFp8GroupColumns, columns - column),
                                                    kFp8Rule, space.codes.data() + at, columns);
      if (scale > formats::kFp8ScaleMax) {
        return formats::too_large_for_fp8(checkpoint_.files(), source,
                                          {.begin = rows.begin + row, .count = count});
      }
      for (int64_t i = 0; i < count; ++i) {
        space.fp8_scales[static_cast<size_t>((row + i) * groups + group)] = scale;
      }
    }
  }
  return {};
}

// Leaves codes in space.codes and a scale for each row and 32 columns in space.int4_scales.
base::Status TensorConverter::read_int4(const TensorInfo& source, Rows rows, Workspace& space) {
  const int64_t columns = columns_of(source);
  const int64_t groups = formats::groups_of(columns, kInt4GroupColumns);
  space.codes.resize(static_cast<size_t>(rows.count * columns));
  space.int4_scales.resize(static_cast<size_t>(rows.count * groups));
  if (formats::native_format(source) == WeightFormat::kInt4) {
    return formats::read_int4_rows(checkpoint_.files(), source, rows, space.decode, space.codes,
                                   space.int4_scales);
  }
  BH_TRY(read(source, rows, space, space.floats));
  for (int64_t row = 0; row < rows.count; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t column = group * kInt4GroupColumns;
      const auto at = static_cast<size_t>(row * columns + column);
      const auto count = static_cast<size_t>(std::min(kInt4GroupColumns, columns - column));
      space.int4_scales[static_cast<size_t>(row * groups + group)] =
          quant::quantise_int4_group(std::span<const float>(space.floats).subspan(at, count),
                                     kInt4Rule, space.codes.data() + at);
    }
  }
  return {};
}

base::Status TensorConverter::place_rows(const TensorInfo& source, Rows rows, const Target& target,
                                         Workspace& space) {
  const WeightFormat format = target.place.format;
  if (format == WeightFormat::kBf16) BH_TRY(read(source, rows, space, space.values));
  if (format == WeightFormat::kFp8) BH_TRY(read_fp8(source, rows, space));
  if (format == WeightFormat::kInt4) BH_TRY(read_int4(source, rows, space));
  const int64_t k = target.place.k;
  auto* packed = const_cast<std::byte*>(target.place.data);
  const auto pack = [&](int64_t from, int64_t to, int64_t count) {
    if (format == WeightFormat::kFp8) {
      const float* scales =
          space.fp8_scales.data() + from * formats::groups_of(k, kFp8GroupColumns);
      kernels::pack_rows_fp8(space.codes.data() + from * k, scales, to, count, k, packed);
    } else if (format == WeightFormat::kInt4) {
      const quant::Bf16* scales =
          space.int4_scales.data() + from * formats::groups_of(k, kInt4GroupColumns);
      kernels::pack_rows_int4(space.codes.data() + from * k, scales, to, count, k, packed);
    } else {
      kernels::pack_rows(space.values.data() + from * k, to, count, k,
                         reinterpret_cast<quant::Bf16*>(packed));
    }
  };
  // Rows that stay neighbours are packed together.
  const auto place = [&](int64_t row) {
    return target.row_begin + target.turned.place(rows.begin + row);
  };
  for (int64_t from = 0; from < rows.count;) {
    const int64_t to = place(from);
    int64_t count = 1;
    while (from + count < rows.count && place(from + count) == to + count) ++count;
    pack(from, to, count);
    from += count;
  }
  return {};
}

base::Status TensorConverter::matrix(const TensorInfo& source, const kernels::PackedWeights& place,
                                     int64_t row_begin, const TurnedRows& turned) {
  const Target target = {place, row_begin, turned};
  const int64_t step = place.format == WeightFormat::kFp8 ? kFp8BlockRows : kernels::kPanelColumns;
  return each_chunk(source, step, [&](Rows rows, Workspace& space) {
    return place_rows(source, rows, target, space);
  });
}

base::Status TensorConverter::table(const TensorInfo& source, quant::Bf16* out) {
  return each_chunk(source, kernels::kPanelColumns, [&](Rows rows, Workspace& space) {
    base::Status status = read(source, rows, space, space.values);
    if (status.ok()) {
      std::ranges::copy(space.values, out + rows.begin * columns_of(source));
    }
    return status;
  });
}

base::Status TensorConverter::vector(const TensorInfo& source, const TurnedRows& turned,
                                     std::span<float> out) {
  BH_CHECK(out.size() == source.elements, "a place of another size than its tensor");
  Workspace& space = workspaces_.front();
  const auto rows = static_cast<int64_t>(source.elements) / columns_of(source);
  BH_TRY(read(source, {.begin = 0, .count = rows}, space, space.floats));
  for (size_t i = 0; i < out.size(); ++i) {
    out[static_cast<size_t>(turned.place(static_cast<int64_t>(i)))] = space.floats[i];
  }
  return {};
}

}  // namespace bulkhead::model
