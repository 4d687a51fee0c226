#include "model/formats/codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/fp8_panels.h"
#include "kernels/int4_panels.h"
#include "model/formats/part_reader.h"

namespace bulkhead::model::formats {
namespace {

using kernels::WeightFormat;

// The kernels' scales, and the quantisers', are of as many columns.
static_assert(kFp8GroupColumns == kernels::kFp8GroupK && kInt4GroupColumns == kernels::kInt4GroupK);

// The largest magnitude of a code; what it makes of a scale must be finite in BF16, in which the
// same weight may be asked for.
constexpr float kInt4Max = 8.0f;

bool is_finite(float value) {
  return std::isfinite(quant::bf16_to_float(quant::float_to_bf16(value)));
}

base::Error not_finite(const TensorFiles& files, const TensorInfo& tensor, int64_t element) {
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  return base::corrupt(fmt::format("{}: byte {}: tensor \"{}\": element {} is not finite in BF16",
                                   files.name_of(tensor),
                                   code_offset(tensor, element / columns, element % columns),
                                   tensor.quantised->codes.name, element));
}

bool is_nan(quant::Fp8 code) { return (code & 0x7fu) == 0x7fu; }

// The first code of a row's group whose value is not finite, or null.
const quant::Fp8* bad_fp8(std::span<const quant::Fp8> codes, float scale) {
  bool any_nan = false;
  for (const quant::Fp8 code : codes) any_nan |= is_nan(code);  // no early end: a vector loop
  if (!any_nan && is_finite(quant::kFp8Max * scale)) return nullptr;
  const auto bad = std::ranges::find_if(codes, [&](quant::Fp8 code) {
    return is_nan(code) || !is_finite(quant::e4m3_to_float(code) * scale);
  });
  return bad == codes.end() ? nullptr : &*bad;
}

}  // namespace

WeightFormat native_format(const TensorInfo& tensor) {
  if (tensor.quantised == nullptr) return WeightFormat::kBf16;
  const QuantisedWeight& weight = *tensor.quantised;
  const auto whole = [&](int64_t group) {
    return weight.block_columns % static_cast<uint64_t>(group) == 0 ||
           weight.block_columns >= tensor.shape[1];
  };
  if (weight.format == QuantFormat::kFp8Blocks && whole(kFp8GroupColumns)) {
    return WeightFormat::kFp8;
  }
  const bool plain = weight.format == QuantFormat::kPackedRows && !weight.zeros &&
                     weight.scales.type == TensorType::kBf16;
  return plain && whole(kInt4GroupColumns) ? WeightFormat::kInt4 : WeightFormat::kBf16;
}

base::Status read_fp8_rows(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                           DecodeWorkspace& space, std::span<quant::Fp8> codes,
                           std::span<float> scales) {
  const QuantisedWeight& weight = *tensor.quantised;
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  const auto blocks = static_cast<int64_t>(weight.scales.shape[1]);
  const auto block_rows = static_cast<int64_t>(weight.block_rows);
  const auto block_columns = static_cast<int64_t>(weight.block_columns);
  const int64_t groups = groups_of(columns, kFp8GroupColumns);
  const int64_t first = rows.begin / block_rows;
  const int64_t last = (rows.begin + rows.count - 1) / block_rows;
  BH_TRY(read_scales(files, weight.scales,
                     {.row = first, .rows = last - first + 1, .columns = blocks}, space));
  BH_TRY(files.read(weight.codes, static_cast<uint64_t>(rows.begin * columns),
                    std::as_writable_bytes(codes)));
  const auto large = std::ranges::find_if(space.scales, [](float s) { return s > kFp8ScaleMax; });
  if (large != space.scales.end()) {
    return base::unsupported(complaint(
        files, weight.scales, first * blocks + (large - space.scales.begin()),
        fmt::format("is {}, larger than FP8 weights can have in memory; load as bf16", *large)));
  }
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t block_row = (rows.begin + row) / block_rows - first;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t column = group * kFp8GroupColumns;
      const float scale =
          space.scales[static_cast<size_t>(block_row * blocks + column / block_columns)];
      scales[static_cast<size_t>(row * groups + group)] = scale;
      const auto part =
          codes.subspan(static_cast<size_t>(row * columns + column),
                        static_cast<size_t>(std::min(kFp8GroupColumns, columns - column)));
      if (const quant::Fp8* bad = bad_fp8(part, scale)) {
        return not_finite(files, tensor, rows.begin * columns + (bad - codes.data()));
      }
    }
  }
  return {};
}

base::Status read_int4_rows(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                            DecodeWorkspace& space, std::span<uint8_t> codes,
                            std::span<quant::Bf16> scales) {
  const QuantisedWeight& weight = *tensor.quantised;
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  const auto stored = static_cast<int64_t>(weight.scales.shape[1]);
  const auto stored_columns = static_cast<int64_t>(weight.block_columns);
  const int64_t groups = groups_of(columns, kInt4GroupColumns);
  if (rows.begin == 0) BH_TRY(check_written_shape(files, tensor));
  BH_TRY(read_scales(files, weight.scales,
                     {.row = rows.begin, .rows = rows.count, .columns = stored}, space));
  space.bytes.resize(static_cast<size_t>(rows.count * columns / 2));
  BH_TRY(files.read(weight.codes, static_cast<uint64_t>(rows.begin * columns / 2), space.bytes));
  for (size_t i = 0; i < space.bytes.size(); ++i) {
    const auto pair = std::to_integer<uint8_t>(space.bytes[i]);
    codes[2 * i] = pair & 15u;
    codes[2 * i + 1] = static_cast<uint8_t>(pair >> 4);
  }
  for (int64_t row = 0; row < rows.count; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t column = group * kInt4GroupColumns;
      const float scale = space.scales[static_cast<size_t>(row * stored + column / stored_columns)];
      scales[static_cast<size_t>(row * groups + group)] = quant::float_to_bf16(scale);
      const auto part =
          codes.subspan(static_cast<size_t>(row * columns + column),
                        static_cast<size_t>(std::min(kInt4GroupColumns, columns - column)));
      if (const uint8_t* bad = first_infinite_int4(part, scale)) {
        return not_finite(files, tensor, rows.begin * columns + (bad - codes.data()));
      }
    }
  }
  return {};
}

const uint8_t* first_infinite_int4(std::span<const uint8_t> codes, float scale) {
  if (is_finite(kInt4Max * scale)) return nullptr;
  const auto bad = std::ranges::find_if(
      codes, [&](uint8_t code) { return !is_finite((static_cast<float>(code) - 8.0f) * scale); });
  return bad == codes.end() ? nullptr : &*bad;
}

base::Error too_large_for_fp8(const TensorFiles& files, const TensorInfo& tensor, RowRange rows) {
  return base::unsupported(
      fmt::format("{}: tensor \"{}\": rows {} to {} have values that are too large for FP8",
                  files.name_of(tensor), tensor.name, rows.begin, rows.begin + rows.count));
}

}  // namespace bulkhead::model::formats
