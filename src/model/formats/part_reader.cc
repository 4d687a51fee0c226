#include "model/formats/part_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/block_formats.h"
#include "quant/fp8.h"

namespace bulkhead::model::formats {
namespace {

void scale_values(TensorType type, std::span<const std::byte> bytes, std::span<float> out) {
  if (type == TensorType::kF8E8M0 || type == TensorType::kU8) {
    std::transform(bytes.begin(), bytes.end(), out.begin(), [](std::byte code) {
      return quant::e8m0_to_float(std::to_integer<uint8_t>(code));
    });
  } else {
    decode_elements(type, bytes, out);
  }
}

}  // namespace

std::string complaint(const TensorFiles& files, const TensorInfo& part, int64_t element,
                      std::string_view what) {
  const TypeUnit unit = unit_of(part.type);
  return fmt::format("{}: byte {}: tensor \"{}\": element {} {}", files.name_of(part),
                     part.offset + static_cast<uint64_t>(element) * unit.bytes, part.name, element,
                     what);
}

base::Status read_window(const TensorFiles& files, const TensorInfo& part, const Window& window,
                         std::span<std::byte> out) {
  const auto width = static_cast<int64_t>(part.shape.size() == 2 ? part.shape[1] : 1);
  const int64_t unit = unit_of(part.type).bytes;
  const bool whole = window.columns == width;
  const int64_t reads = whole ? 1 : window.rows;
  const auto bytes = out.size() / static_cast<size_t>(std::max<int64_t>(reads, 1));
  for (int64_t i = 0; i < reads; ++i) {
    const int64_t element = (window.row + i) * width + window.column;
    BH_TRY(files.read(part, static_cast<uint64_t>(element * unit),
                      out.subspan(static_cast<size_t>(i) * bytes, bytes)));
  }
  return {};
}

base::Status read_words(const TensorFiles& files, const TensorInfo& part, const Window& window,
                        std::vector<uint32_t>& out) {
  out.resize(static_cast<size_t>(window.rows * window.columns));
  return read_window(files, part, window, std::as_writable_bytes(std::span(out)));
}

base::Status read_scales(const TensorFiles& files, const TensorInfo& part, const Window& window,
                         DecodeWorkspace& space) {
  const auto count = static_cast<size_t>(window.rows * window.columns);
  space.bytes.resize(count * unit_of(part.type).bytes);
  space.scales.resize(count);
  BH_TRY(read_window(files, part, window, space.bytes));
  scale_values(part.type, space.bytes, space.scales);
  const auto bad = std::find_if_not(space.scales.begin(), space.scales.end(), [](float scale) {
    return scale > 0.0f && std::isfinite(scale);
  });
  if (bad == space.scales.end()) return {};
  const int64_t index = bad - space.scales.begin();
  const int64_t row = window.row + index / window.columns;
  const int64_t column = window.column + index % window.columns;
  return base::corrupt(
      complaint(files, part, row * static_cast<int64_t>(part.shape[1]) + column,
                fmt::format("is {}, but a scale is a finite number above zero", *bad)));
}

base::Status check_written_shape(const TensorFiles& files, const TensorInfo& tensor) {
  const QuantisedWeight& weight = *tensor.quantised;
  if (!weight.shape) return {};
  std::array<int64_t, 2> stated{};
  if (weight.shape->type == TensorType::kI64) {
    BH_TRY(files.read(*weight.shape, 0, std::as_writable_bytes(std::span(stated))));
  } else {
    std::array<int32_t, 2> narrow{};
    BH_TRY(files.read(*weight.shape, 0, std::as_writable_bytes(std::span(narrow))));
    std::copy(narrow.begin(), narrow.end(), stated.begin());
  }
  for (size_t i = 0; i < stated.size(); ++i) {
    if (stated[i] == static_cast<int64_t>(tensor.shape[i])) continue;
    return base::corrupt(complaint(
        files, *weight.shape, static_cast<int64_t>(i),
        fmt::format("is {}, but \"{}\" of {} holds a weight of {}", stated[i], weight.codes.name,
                    shape_text(weight.codes.shape), shape_text(tensor.shape))));
  }
  return {};
}

}  // namespace bulkhead::model::formats
