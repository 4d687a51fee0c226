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

UnitRows all_rows(const TensorInfo& tensor) {
  const auto rows = static_cast<int64_t>(tensor.shape.front());
  return {.unit = rows, .begin = 0, .count = rows};
}

// Chunks in which all rows lie that are meant, and no row twice. They begin at multiples of `step`
// rows, and end at others or with the tensor.
std::vector<formats::RowRange> chunks_of(const TensorInfo& source, const UnitRows& meant,
                                         int64_t step) {
  const auto rows = static_cast<int64_t>(source.shape.front());
  const int64_t wish = std::max(kChunkElements / columns_of(source),
                                source.quantised ? formats::preferred_rows(*source.quantised) : 0);
  const int64_t chunk_rows = std::max<int64_t>(1, wish / step) * step;
  std::vector<formats::RowRange> chunks;
  int64_t next = 0;
  for (int64_t first = meant.begin; first < rows; first += meant.unit) {
    const int64_t end = std::min((first + meant.count + step - 1) / step * step, rows);
    next = std::max(next, first / step * step);
    for (; next < end; next += chunks.back().count) {
      chunks.push_back({.begin = next, .count = std::min(chunk_rows, end - next)});
    }
  }
  return chunks;
}

}  // namespace

int64_t TurnedRows::place(int64_t row) const {
  if (turned == 0) return row;
  const int64_t pair = row % unit - begin;
  if (pair < 0 || pair >= turned) return row;
  return row - pair + pair % 2 * (turned / 2) + pair / 2;
}

int64_t UnitRows::index(int64_t row) const {
  const int64_t at = row % unit - begin;
  return at >= 0 && at < count ? at : -1;
}

TensorConverter::TensorConverter(const Checkpoint& checkpoint, device::ThreadPool& pool)
    : checkpoint_(checkpoint), pool_(pool), workspaces_(pool.threads()) {}

// Calls place(rows, workspace) for every chunk (chunks_of).
template <typename Place>
base::Status TensorConverter::each_chunk(const TensorInfo& source, const UnitRows& meant,
                                         int64_t rows_step, Place&& place) {
  const std::vector<Rows> chunks = chunks_of(source, meant, rows_step);
  std::mutex mutex;
  base::Status failure;
  pool_.run(chunks.size(), [&](size_t chunk, unsigned worker) {
    base::Status status = place(chunks[chunk], workspaces_[worker]);
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

template <typename SpotOf>
base::Status TensorConverter::place_rows(const TensorInfo& source, Rows rows, WeightFormat format,
                                         const SpotOf& spot_of, Workspace& space) {
  if (format == WeightFormat::kBf16) BH_TRY(read(source, rows, space, space.values));
  if (format == WeightFormat::kFp8) BH_TRY(read_fp8(source, rows, space));
  if (format == WeightFormat::kInt4) BH_TRY(read_int4(source, rows, space));
  const int64_t k = columns_of(source);
  const auto pack = [&](int64_t from, const Spot& to, int64_t count) {
    auto* packed = const_cast<std::byte*>(to.data);
    if (format == WeightFormat::kFp8) {
      const float* scales =
          space.fp8_scales.data() + from * formats::groups_of(k, kFp8GroupColumns);
      kernels::pack_rows_fp8(space.codes.data() + from * k, scales, to.row, count, k, packed);
    } else if (format == WeightFormat::kInt4) {
      const quant::Bf16* scales =
          space.int4_scales.data() + from * formats::groups_of(k, kInt4GroupColumns);
      kernels::pack_rows_int4(space.codes.data() + from * k, scales, to.row, count, k, packed);
    } else {
      kernels::pack_rows(space.values.data() + from * k, to.row, count, k,
                         reinterpret_cast<quant::Bf16*>(packed));
    }
  };
  // Rows that stay neighbours are packed together.
  const auto follows = [&](const Spot& to, int64_t from, int64_t count) {
    return spot_of(rows.begin + from + count) == Spot{to.data, to.row + count};
  };
  for (int64_t from = 0; from < rows.count;) {
    const Spot to = spot_of(rows.begin + from);
    int64_t count = 1;
    while (from + count < rows.count && follows(to, from, count)) ++count;
    if (to.data != nullptr) pack(from, to, count);
    from += count;
  }
  return {};
}

template <typename SpotOf>
base::Status TensorConverter::place_chunks(const TensorInfo& source, const UnitRows& meant,
                                           WeightFormat format, const SpotOf& spot_of) {
  const int64_t step = format == WeightFormat::kFp8 ? kFp8BlockRows : kernels::kPanelColumns;
  return each_chunk(source, meant, step, [&](Rows rows, Workspace& space) {
    return place_rows(source, rows, format, spot_of, space);
  });
}

base::Status TensorConverter::matrix(const TensorInfo& source, const kernels::PackedWeights& place,
                                     int64_t row_begin, const TurnedRows& turned) {
  return place_chunks(source, all_rows(source), place.format,
                      [&](int64_t row) { return Spot{place.data, row_begin + turned.place(row)}; });
}

base::Status TensorConverter::matrices(const TensorInfo& source, const UnitRows& meant,
                                       std::span<const kernels::PackedWeights> places) {
  return place_chunks(source, meant, places.front().format, [&](int64_t row) {
    const int64_t at = meant.index(row);
    return at < 0 ? Spot{} : Spot{places[static_cast<size_t>(row / meant.unit)].data, at};
  });
}

base::Status TensorConverter::table(const TensorInfo& source, const UnitRows& meant,
                                    quant::Bf16* out) {
  const int64_t columns = columns_of(source);
  const auto copy = [&](Rows rows, Workspace& space) -> base::Status {
    BH_TRY(read(source, rows, space, space.values));
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t row = rows.begin + i;
      const int64_t at = meant.index(row);
      if (at < 0) continue;
      std::copy_n(space.values.data() + i * columns, columns,
                  out + (row / meant.unit * meant.count + at) * columns);
    }
    return {};
  };
  return each_chunk(source, meant, kernels::kPanelColumns, copy);
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
