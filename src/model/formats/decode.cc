#include "model/formats/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "model/formats/part_reader.h"
#include "quant/f16.h"
#include "quant/fp8.h"
#include "quant/int4.h"

namespace bulkhead::model::formats {
namespace {

constexpr int64_t kPerWord = quant::kCodesPerWord;
constexpr int64_t kWordBytes = 4;
constexpr size_t kCodes = 16;      // values of a four-bit code
constexpr size_t kFp8Codes = 256;  // and of an eight-bit one
// 256 rows are 128 bytes of an AWQ line: two cache lines for each read.
constexpr int64_t kTransposedRows = 256;

template <typename T>
T narrowed(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return quant::float_to_bf16(value);
  }
}

template <typename T>
std::vector<T>& products_of(DecodeWorkspace& space) {
  if constexpr (std::is_same_v<T, float>) {
    return space.products;
  } else {
    return space.narrow_products;
  }
}

// ---- FP8 ----

const std::array<float, kFp8Codes>& fp8_values() {
  static const std::array<float, kFp8Codes> values = [] {
    std::array<float, kFp8Codes> out{};
    for (size_t code = 0; code < kFp8Codes; ++code) {
      out[code] = quant::e4m3_to_float(static_cast<quant::Fp8>(code));
    }
    return out;
  }();
  return values;
}

struct Fp8Block {
  const uint8_t* codes;
  float scale;
  int64_t rows;
  int64_t columns;
};

// One block, or what the chunk has of it, out of rows of `stride` elements. Products are looked up
// where a table of them costs less than the block's own.
template <typename T>
void decode_fp8_block(const Fp8Block& block, int64_t stride, T* out) {
  const std::array<float, kFp8Codes>& values = fp8_values();
  std::array<T, kFp8Codes> table;
  const auto each = [&](auto&& value_of) {
    for (int64_t row = 0; row < block.rows; ++row) {
      const uint8_t* codes = block.codes + row * stride;
      std::transform(codes, codes + block.columns, out + row * stride, value_of);
    }
  };
  const auto product = [&](uint8_t code) { return narrowed<T>(values[code] * block.scale); };
  if (block.rows * block.columns < static_cast<int64_t>(kFp8Codes)) return each(product);
  for (size_t code = 0; code < kFp8Codes; ++code) table[code] = product(static_cast<uint8_t>(code));
  each([&](uint8_t code) { return table[code]; });
}

template <typename T>
base::Status decode_fp8(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                        DecodeWorkspace& space, std::span<T> out) {
  const QuantisedWeight& weight = *tensor.quantised;
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  const auto block_rows = static_cast<int64_t>(weight.block_rows);
  const auto block_columns = static_cast<int64_t>(weight.block_columns);
  const auto blocks = static_cast<int64_t>(weight.scales.shape[1]);
  const int64_t first = rows.begin / block_rows;
  const int64_t last = (rows.begin + rows.count - 1) / block_rows;
  BH_TRY(read_scales(files, weight.scales,
                     {.row = first, .rows = last - first + 1, .columns = blocks}, space));
  space.bytes.resize(static_cast<size_t>(rows.count * columns));
  BH_TRY(files.read(weight.codes, static_cast<uint64_t>(rows.begin * columns), space.bytes));
  const auto* codes = reinterpret_cast<const uint8_t*>(space.bytes.data());
  for (int64_t block_row = first; block_row <= last; ++block_row) {
    const int64_t begin = std::max(block_row * block_rows, rows.begin);
    const int64_t end = std::min((block_row + 1) * block_rows, rows.begin + rows.count);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t at = (begin - rows.begin) * columns + block * block_columns;
      decode_fp8_block<T>(
          {.codes = codes + at,
           .scale = space.scales[static_cast<size_t>((block_row - first) * blocks + block)],
           .rows = end - begin,
           .columns = std::min(block_columns, columns - block * block_columns)},
          columns, out.data() + at);
    }
  }
  return {};
}

// ---- Four bits ----

// How a product is rounded before anything else sees it.
enum class ProductType { kBf16, kF16, kF32 };

ProductType product_type(TensorType scales) {
  if (scales == TensorType::kBf16) return ProductType::kBf16;
  return scales == TensorType::kF16 ? ProductType::kF16 : ProductType::kF32;
}

// The value of each code in a group. One loop for each type: the common one has no branch.
template <typename T>
void code_values(float scale, int32_t zero, ProductType type, T* out) {
  std::array<float, kCodes> products;
  for (size_t code = 0; code < kCodes; ++code) {
    products[code] = static_cast<float>(static_cast<int32_t>(code) - zero) * scale;
  }
  if (type == ProductType::kF16) {
    for (float& one : products) one = quant::f16_to_float(quant::float_to_f16(one));
  }
  if (std::is_same_v<T, float> && type == ProductType::kBf16) {
    for (float& one : products) one = quant::bf16_to_float(quant::float_to_bf16(one));
  }
  std::transform(products.begin(), products.end(), out, narrowed<T>);
}

// Zero points of a packed-rows weight: row n is nibble n % 8 of word row n / 8.
base::Status read_row_zeros(const TensorFiles& files, const QuantisedWeight& weight, RowRange rows,
                            int64_t groups, DecodeWorkspace& space) {
  constexpr int32_t kSymmetric = 8;
  space.zeros.assign(static_cast<size_t>(rows.count * groups), kSymmetric);
  if (!weight.zeros) return {};
  const int64_t first = rows.begin / kPerWord;
  const int64_t last = (rows.begin + rows.count - 1) / kPerWord;
  BH_TRY(read_words(files, *weight.zeros,
                    {.row = first, .rows = last - first + 1, .columns = groups}, space.words));
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t at = rows.begin + row;
    for (int64_t group = 0; group < groups; ++group) {
      const uint32_t word =
          space.words[static_cast<size_t>((at / kPerWord - first) * groups + group)];
      space.zeros[static_cast<size_t>(row * groups + group)] =
          static_cast<int32_t>(quant::nibble_of(word, static_cast<uint32_t>(at % kPerWord)));
    }
  }
  return {};
}

template <typename T>
base::Status decode_packed_rows(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                                DecodeWorkspace& space, std::span<T> out) {
  const QuantisedWeight& weight = *tensor.quantised;
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  const auto groups = static_cast<int64_t>(weight.scales.shape[1]);
  if (rows.begin == 0) BH_TRY(check_written_shape(files, tensor));
  BH_TRY(read_scales(files, weight.scales,
                     {.row = rows.begin, .rows = rows.count, .columns = groups}, space));
  BH_TRY(read_row_zeros(files, weight, rows, groups, space));
  space.bytes.resize(static_cast<size_t>(rows.count * columns / 2));
  BH_TRY(files.read(weight.codes, static_cast<uint64_t>(rows.begin * columns / 2), space.bytes));
  const ProductType type = product_type(weight.scales.type);
  const int64_t group_bytes = static_cast<int64_t>(weight.block_columns) / 2;
  const auto* codes = reinterpret_cast<const uint8_t*>(space.bytes.data());
  T* to = out.data();
  for (size_t group = 0; group < space.scales.size(); ++group) {
    std::array<T, kCodes> values;
    code_values(space.scales[group], space.zeros[group], type, values.data());
    for (int64_t i = 0; i < group_bytes; ++i, ++codes, to += 2) {
      to[0] = values[*codes & 15u];
      to[1] = values[*codes >> 4];
    }
  }
  return {};
}

// What a chunk of an AWQ or GPTQ weight has beside its codes: for each row and group the value of
// each code, [rows][groups][16]; and the group of each column.
template <typename T>
base::Status read_products(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                           DecodeWorkspace& space) {
  const QuantisedWeight& weight = *tensor.quantised;
  const auto groups = static_cast<int64_t>(weight.scales.shape[0]);
  const Window window = {.rows = groups, .column = rows.begin, .columns = rows.count};
  BH_TRY(read_scales(files, weight.scales, window, space));
  const int64_t first = rows.begin / kPerWord;
  const int64_t width = (rows.begin + rows.count - 1) / kPerWord - first + 1;
  BH_TRY(read_words(files, *weight.zeros, {.rows = groups, .column = first, .columns = width},
                    space.words));
  const bool awq = weight.format == QuantFormat::kAwq;
  const quant::NibbleOrder& order = awq ? quant::kAwqOrder : quant::kSequential;
  // A word was stored with every zero point less one; a borrow over a nibble's edge is undone too.
  const uint32_t less = weight.zeros_less_one ? 0x11111111u : 0u;
  std::vector<T>& products = products_of<T>(space);
  products.resize(static_cast<size_t>(rows.count * groups) * kCodes);
  const ProductType type = product_type(weight.scales.type);
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t at = rows.begin + row;
    for (int64_t group = 0; group < groups; ++group) {
      const uint32_t word =
          space.words[static_cast<size_t>(group * width + at / kPerWord - first)] + less;
      const uint32_t zero = quant::nibble_of(word, order[static_cast<size_t>(at % kPerWord)]);
      code_values(space.scales[static_cast<size_t>(group * rows.count + row)],
                  static_cast<int32_t>(zero), type,
                  &products[static_cast<size_t>(row * groups + group) * kCodes]);
    }
  }
  return {};
}

// The group of each column, in space.groups: as the file says, or one run after the other.
base::Status read_groups(const TensorFiles& files, const TensorInfo& tensor,
                         DecodeWorkspace& space) {
  const QuantisedWeight& weight = *tensor.quantised;
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  if (!weight.groups) {
    space.groups.resize(static_cast<size_t>(columns));
    for (size_t i = 0; i < space.groups.size(); ++i) {
      space.groups[i] = static_cast<uint32_t>(i / weight.block_columns);
    }
    return {};
  }
  BH_TRY(read_words(files, *weight.groups, {.rows = columns, .columns = 1}, space.groups));
  const uint64_t groups = weight.scales.shape[0];
  const auto bad = std::find_if(space.groups.begin(), space.groups.end(),
                                [&](uint32_t group) { return group >= groups; });
  if (bad == space.groups.end()) return {};
  return base::corrupt(
      complaint(files, *weight.groups, bad - space.groups.begin(),
                fmt::format("is {}, but there are {} groups", static_cast<int32_t>(*bad), groups)));
}

// Codes of AWQ: line k has, of column k, eight rows in each word.
template <typename T>
void place_awq(const DecodeWorkspace& space, const T* products, RowRange rows, int64_t groups,
               std::span<T> out) {
  const auto columns = static_cast<int64_t>(space.groups.size());
  const int64_t width = rows.count / kPerWord;
  for (int64_t word = 0; word < width; ++word) {
    const T* tables = products + word * kPerWord * groups * static_cast<int64_t>(kCodes);
    T* to = out.data() + word * kPerWord * columns;
    for (int64_t k = 0; k < columns; ++k) {
      const uint32_t codes = space.words[static_cast<size_t>(k * width + word)];
      const T* group = tables + space.groups[static_cast<size_t>(k)] * kCodes;
      for (int64_t i = 0; i < kPerWord; ++i) {
        const uint32_t code = quant::nibble_of(codes, quant::kAwqOrder[static_cast<size_t>(i)]);
        to[i * columns + k] = group[i * groups * static_cast<int64_t>(kCodes) + code];
      }
    }
  }
}

// Codes of GPTQ: line k / 8 has, of each row, eight columns in a word.
template <typename T>
void place_gptq(const DecodeWorkspace& space, const T* products, RowRange rows, int64_t groups,
                std::span<T> out) {
  const auto columns = static_cast<int64_t>(space.groups.size());
  for (int64_t row = 0; row < rows.count; ++row) {
    const T* tables = products + row * groups * static_cast<int64_t>(kCodes);
    T* to = out.data() + row * columns;
    for (int64_t k = 0; k < columns; k += kPerWord) {
      const uint32_t codes = space.words[static_cast<size_t>(k / kPerWord * rows.count + row)];
      for (int64_t i = 0; i < kPerWord; ++i) {
        const size_t group = space.groups[static_cast<size_t>(k + i)];
        to[k + i] = tables[group * kCodes + quant::nibble_of(codes, static_cast<uint32_t>(i))];
      }
    }
  }
}

template <typename T>
base::Status decode_transposed(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                               DecodeWorkspace& space, std::span<T> out) {
  const QuantisedWeight& weight = *tensor.quantised;
  const bool awq = weight.format == QuantFormat::kAwq;
  const auto groups = static_cast<int64_t>(weight.scales.shape[0]);
  const auto lines = static_cast<int64_t>(weight.codes.shape[0]);
  BH_TRY(read_groups(files, tensor, space));
  BH_TRY(read_products<T>(files, tensor, rows, space));
  const int64_t per_word = awq ? kPerWord : 1;
  BH_TRY(
      read_words(files, weight.codes,
                 {.rows = lines, .column = rows.begin / per_word, .columns = rows.count / per_word},
                 space.words));
  const T* products = products_of<T>(space).data();
  if (awq) {
    place_awq(space, products, rows, groups, out);
  } else {
    place_gptq(space, products, rows, groups, out);
  }
  return {};
}

}  // namespace

int64_t preferred_rows(const QuantisedWeight& weight) {
  const bool transposed = weight.format == QuantFormat::kAwq || weight.format == QuantFormat::kGptq;
  return transposed ? kTransposedRows : 0;
}

template <typename T>
base::Status decode_rows(const TensorFiles& files, const TensorInfo& tensor, RowRange rows,
                         DecodeWorkspace& space, std::span<T> out) {
  switch (tensor.quantised->format) {
    case QuantFormat::kFp8Blocks:
      return decode_fp8(files, tensor, rows, space, out);
    case QuantFormat::kPackedRows:
      return decode_packed_rows(files, tensor, rows, space, out);
    case QuantFormat::kAwq:
    case QuantFormat::kGptq:
      return decode_transposed(files, tensor, rows, space, out);
  }
  BH_CHECK(false, "a QuantFormat outside its enumeration");
}

template base::Status decode_rows<float>(const TensorFiles&, const TensorInfo&, RowRange,
                                         DecodeWorkspace&, std::span<float>);
template base::Status decode_rows<quant::Bf16>(const TensorFiles&, const TensorInfo&, RowRange,
                                               DecodeWorkspace&, std::span<quant::Bf16>);

uint64_t code_offset(const TensorInfo& tensor, int64_t row, int64_t column) {
  const QuantisedWeight& weight = *tensor.quantised;
  const auto rows = static_cast<int64_t>(tensor.shape[0]);
  const auto columns = static_cast<int64_t>(tensor.shape[1]);
  int64_t byte = 0;
  switch (weight.format) {
    case QuantFormat::kFp8Blocks:
      byte = row * columns + column;
      break;
    case QuantFormat::kPackedRows:
      byte = (row * columns + column) / 2;
      break;
    case QuantFormat::kAwq:
      byte = (column * (rows / kPerWord) + row / kPerWord) * kWordBytes;
      break;
    case QuantFormat::kGptq:
      byte = (column / kPerWord * rows + row) * kWordBytes;
      break;
  }
  return weight.codes.offset + static_cast<uint64_t>(byte);
}

}  // namespace bulkhead::model::formats
