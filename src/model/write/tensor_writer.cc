#include "model/write/tensor_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "model/block_formats.h"
#include "model/formats/codes.h"
#include "model/formats/part_reader.h"
#include "quant/fp8_blocks.h"
#include "quant/int4.h"
#include "quant/int4_groups.h"

namespace bulkhead::model::write {
namespace {

using quant::ScaleRule;

constexpr uint64_t kCopyBytes = 1 << 20;
constexpr int64_t kBlock = quant::kFp8Block;
constexpr int64_t kGroup = quant::kInt4Group;

// Differences of one block or group from its codes, into `error`. `value_of` gives a code's value.
template <typename ValueOf>
double squared_difference(std::span<const float> values, const uint8_t* codes, ValueOf&& value_of,
                          double* largest) {
  double squared = 0.0;
  double most = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = double{values[i]} - value_of(codes[i]);
    squared += difference * difference;
    most = std::max(most, std::abs(difference));
  }
  if (largest != nullptr) *largest = std::max(*largest, most);
  return squared;
}

double squares_of(std::span<const float> values) {
  double sum = 0.0;
  for (const float value : values) sum += double{value} * double{value};
  return sum;
}

std::array<float, 256> fp8_values() {
  std::array<float, 256> values{};
  for (size_t code = 0; code < values.size(); ++code) {
    values[code] = quant::e4m3_to_float(static_cast<quant::Fp8>(code));
  }
  return values;
}

// The squared difference of a block of `columns` a line out of lines of `stride`.
double fp8_difference(const float* values, const uint8_t* codes, int64_t stride, int64_t rows,
                      int64_t columns, float scale, double* largest) {
  static const std::array<float, 256> kValues = fp8_values();
  double squared = 0.0;
  for (int64_t row = 0; row < rows; ++row) {
    squared += squared_difference(
        {values + row * stride, static_cast<size_t>(columns)}, codes + row * stride,
        [&](uint8_t code) { return double{kValues[code]} * double{scale}; }, largest);
  }
  return squared;
}

double int4_difference(std::span<const float> values, const uint8_t* codes, quant::Bf16 scale,
                       double* largest) {
  const double wide = double{quant::bf16_to_float(scale)};
  return squared_difference(
      values, codes, [&](uint8_t code) { return (code - quant::kInt4Zero) * wide; }, largest);
}

// The words of a group's codes.
void pack_group(const uint8_t* codes, uint32_t* words) {
  for (size_t word = 0; word < quant::kInt4Group / quant::kCodesPerWord; ++word) {
    quant::WordCodes eight{};
    std::copy_n(codes + word * quant::kCodesPerWord, quant::kCodesPerWord, eight.begin());
    words[word] = quant::pack_word(eight, quant::kSequential);
  }
}

base::Error not_finite(const Checkpoint& checkpoint, const TensorInfo& tensor, int64_t element) {
  const auto columns = static_cast<int64_t>(tensor.shape.back());
  return base::corrupt(fmt::format("{}: tensor \"{}\": row {}, column {} is not finite in BF16",
                                   checkpoint.file_name(tensor), tensor.name, element / columns,
                                   element % columns));
}

template <typename T>
std::span<const std::byte> as_bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

TensorWriter::TensorWriter(const Checkpoint& checkpoint, device::ThreadPool& pool, ScaleRule rule)
    : checkpoint_(checkpoint), pool_(pool), rule_(rule) {
  workspaces_.reserve(pool.threads());
  for (unsigned i = 0; i < pool.threads(); ++i) workspaces_.emplace_back(checkpoint);
}

base::Result<TensorError> TensorWriter::write(const TensorJob& job, const SafetensorsWriter& out,
                                              size_t first_part) {
  const Target target = {out, first_part};
  switch (job.action) {
    case Action::kCopy:
      BH_TRY(job.interleaved_group > 0 ? copy_reordered(job, target) : copy(*job.source, target));
      return TensorError{};
    case Action::kCopyCodes:
      BH_TRY(copy_codes(job, target));
      return TensorError{};
    default:
      return convert(job, target);
  }
}

base::Status TensorWriter::copy(const TensorInfo& source, const Target& target) {
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(kCopyBytes, source.bytes)));
  for (uint64_t at = 0; at < source.bytes; at += kCopyBytes) {
    const auto part =
        std::span(bytes).first(static_cast<size_t>(std::min(kCopyBytes, source.bytes - at)));
    BH_TRY(checkpoint_.files().read(source, at, part));
    BH_TRY(target.out.write(target.first_part, at, part));
  }
  return {};
}

// A vector of a GGUF file whose elements stand in the order of interleaved rows.
base::Status TensorWriter::copy_reordered(const TensorJob& job, const Target& target) {
  std::vector<std::byte> stored(static_cast<size_t>(job.source->bytes));
  BH_TRY(checkpoint_.files().read(*job.source, 0, stored));
  const size_t unit = unit_of(job.source->type).bytes;
  const auto group = static_cast<size_t>(job.interleaved_group);
  std::vector<std::byte> ordered(stored.size());
  for (size_t i = 0; i < stored.size() / unit; ++i) {
    const size_t inside = i % group;
    const size_t place = i - inside + inside / 2 + inside % 2 * (group / 2);
    std::copy_n(stored.begin() + static_cast<ptrdiff_t>(i * unit), unit,
                ordered.begin() + static_cast<ptrdiff_t>(place * unit));
  }
  return target.out.write(target.first_part, 0, ordered);
}

// Calls place(rows, workspace) for blocks of 128 rows.
template <typename Place>
base::Status TensorWriter::each_block(int64_t rows, Place&& place) {
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  std::mutex mutex;
  base::Status failure;
  pool_.run(static_cast<size_t>(blocks), [&](size_t block, unsigned worker) {
    const int64_t begin = static_cast<int64_t>(block) * kBlock;
    base::Status status =
        place(formats::RowRange{.begin = begin, .count = std::min(kBlock, rows - begin)},
              workspaces_[worker]);
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (failure.ok()) failure = std::move(status);
  });
  return failure;
}

base::Status TensorWriter::copy_codes(const TensorJob& job, const Target& target) {
  const TensorInfo& source = *job.source;
  const bool fp8 = job.format == kernels::WeightFormat::kFp8;
  const auto rows = static_cast<int64_t>(source.shape[0]);
  BH_TRY(each_block(rows, [&](formats::RowRange block, Workspace& space) {
    return fp8 ? copy_fp8_rows(job, block, target, space)
               : copy_int4_rows(job, block, target, space);
  }));
  const Target scales = {target.out, target.first_part + 1};
  if (fp8) return copy_fp8_scales(source.quantised->scales, scales);
  BH_TRY(copy(source.quantised->scales, scales));
  const std::array<int64_t, 2> shape = {rows, static_cast<int64_t>(source.shape[1])};
  return target.out.write(target.first_part + 2, 0, std::as_bytes(std::span(shape)));
}

base::Status TensorWriter::copy_fp8_rows(const TensorJob& job, formats::RowRange rows,
                                         const Target& target, Workspace& space) {
  const auto columns = static_cast<int64_t>(job.source->shape[1]);
  space.codes.resize(static_cast<size_t>(rows.count * columns));
  space.scales.resize(static_cast<size_t>(rows.count * formats::groups_of(columns, kBlock)));
  BH_TRY(formats::read_fp8_rows(checkpoint_.files(), *job.source, rows, space.decode, space.codes,
                                space.scales));
  return target.out.write(target.first_part, static_cast<uint64_t>(rows.begin * columns),
                          as_bytes(space.codes));
}

base::Status TensorWriter::copy_int4_rows(const TensorJob& job, formats::RowRange rows,
                                          const Target& target, Workspace& space) {
  const auto columns = static_cast<int64_t>(job.source->shape[1]);
  const auto groups = static_cast<size_t>(rows.count * columns / kGroup);
  space.codes.resize(static_cast<size_t>(rows.count * columns));
  space.narrow.resize(groups);
  space.words.resize(space.codes.size() / quant::kCodesPerWord);
  BH_TRY(formats::read_int4_rows(checkpoint_.files(), *job.source, rows, space.decode, space.codes,
                                 space.narrow));
  for (size_t group = 0; group < groups; ++group) {
    const size_t at = group * quant::kInt4Group;
    pack_group(&space.codes[at], &space.words[at / quant::kCodesPerWord]);
  }
  return target.out.write(target.first_part, static_cast<uint64_t>(rows.begin * columns / 2),
                          as_bytes(space.words));
}

// They may be stored in another type, each number of which FP32 holds.
base::Status TensorWriter::copy_fp8_scales(const TensorInfo& scales, const Target& target) {
  Workspace& space = workspaces_.front();
  BH_TRY(formats::read_scales(checkpoint_.files(), scales,
                              {.rows = static_cast<int64_t>(scales.shape[0]),
                               .columns = static_cast<int64_t>(scales.shape[1])},
                              space.decode));
  return target.out.write(target.first_part, 0, as_bytes(space.decode.scales));
}

base::Result<TensorError> TensorWriter::convert(const TensorJob& job, const Target& target) {
  const bool matrix = job.source->shape.size() > 1;
  const auto rows =
      static_cast<int64_t>(matrix ? job.source->elements / job.source->shape.back() : uint64_t{1});
  std::vector<TensorError> errors(static_cast<size_t>(formats::groups_of(rows, kBlock)));
  BH_TRY(each_block(rows, [&](formats::RowRange block, Workspace& space) -> base::Status {
    BH_ASSIGN(errors[static_cast<size_t>(block.begin / kBlock)],
              convert_rows(job, block, target, space));
    return {};
  }));
  if (job.format == kernels::WeightFormat::kInt4) {
    const std::array<int64_t, 2> shape = {rows, static_cast<int64_t>(job.source->shape.back())};
    BH_TRY(target.out.write(target.first_part + 2, 0, std::as_bytes(std::span(shape))));
  }
  TensorError sum;
  for (const TensorError& error : errors) sum.add(error);
  return sum;
}

base::Result<TensorError> TensorWriter::convert_rows(const TensorJob& job, formats::RowRange rows,
                                                     const Target& target, Workspace& space) {
  const uint64_t columns = job.source->shape.back();
  space.values.resize(static_cast<size_t>(rows.count) * static_cast<size_t>(columns));
  BH_TRY(space.rows.read(*job.source, rows, job.interleaved_group, space.values));
  switch (job.format) {
    case kernels::WeightFormat::kFp8:
      return to_fp8(job, rows, target, space);
    case kernels::WeightFormat::kInt4:
      return to_int4(job, rows, target, space);
    case kernels::WeightFormat::kBf16:
      break;
  }
  BH_TRY(widen(job, rows, target, space));
  return TensorError{};
}

base::Status TensorWriter::widen(const TensorJob& job, formats::RowRange rows, const Target& target,
                                 Workspace& space) {
  space.narrow.resize(space.values.size());
  std::ranges::transform(space.values, space.narrow.begin(), quant::float_to_bf16);
  const auto bad = std::ranges::find_if(
      space.narrow, [](quant::Bf16 value) { return (value & 0x7f80u) == 0x7f80u; });
  const auto columns = static_cast<int64_t>(job.source->shape.back());
  if (bad != space.narrow.end()) {
    return not_finite(checkpoint_, *job.source,
                      rows.begin * columns + (bad - space.narrow.begin()));
  }
  const auto at = static_cast<uint64_t>(rows.begin * columns);
  return target.out.write(target.first_part, at * sizeof(quant::Bf16), as_bytes(space.narrow));
}

base::Result<TensorError> TensorWriter::to_fp8(const TensorJob& job, formats::RowRange rows,
                                               const Target& target, Workspace& space) {
  const auto columns = static_cast<int64_t>(job.source->shape.back());
  const int64_t blocks = (columns + kBlock - 1) / kBlock;
  space.codes.resize(space.values.size());
  space.scales.resize(static_cast<size_t>(blocks));
  TensorError error;
  error.squares = squares_of(space.values);
  for (int64_t block = 0; block < blocks; ++block) {
    const float* values = space.values.data() + block * kBlock;
    uint8_t* codes = space.codes.data() + block * kBlock;
    const int64_t width = std::min(kBlock, columns - block * kBlock);
    const auto quantise = [&](ScaleRule rule, double* largest) {
      const float scale =
          quant::quantise_fp8_block(values, columns, rows.count, width, rule, codes, columns);
      space.scales[static_cast<size_t>(block)] = scale;
      return fp8_difference(values, codes, columns, rows.count, width, scale, largest);
    };
    if (rule_ == ScaleRule::kSearch) error.amax_squared += quantise(ScaleRule::kAmax, nullptr);
    error.squared += quantise(rule_, &error.largest);
    if (space.scales[static_cast<size_t>(block)] > formats::kFp8ScaleMax) {
      return formats::too_large_for_fp8(checkpoint_.files(), *job.source, rows);
    }
  }
  if (rule_ == ScaleRule::kAmax) error.amax_squared = error.squared;
  BH_TRY(target.out.write(target.first_part, static_cast<uint64_t>(rows.begin * columns),
                          as_bytes(space.codes)));
  const auto scale_at = static_cast<uint64_t>(rows.begin / kBlock * blocks) * sizeof(float);
  BH_TRY(target.out.write(target.first_part + 1, scale_at, as_bytes(space.scales)));
  return error;
}

base::Result<TensorError> TensorWriter::to_int4(const TensorJob& job, formats::RowRange rows,
                                                const Target& target, Workspace& space) {
  const auto columns = static_cast<int64_t>(job.source->shape.back());
  const size_t groups = space.values.size() / quant::kInt4Group;
  space.narrow.resize(groups);
  space.words.resize(space.values.size() / quant::kCodesPerWord);
  TensorError error;
  error.squares = squares_of(space.values);
  std::array<uint8_t, quant::kInt4Group> codes{};
  for (size_t group = 0; group < groups; ++group) {
    const auto values =
        std::span<const float>(space.values).subspan(group * quant::kInt4Group, quant::kInt4Group);
    const auto quantise = [&](ScaleRule rule, double* largest) {
      space.narrow[group] = quant::quantise_int4_group(values, rule, codes.data());
      return int4_difference(values, codes.data(), space.narrow[group], largest);
    };
    if (rule_ == ScaleRule::kSearch) error.amax_squared += quantise(ScaleRule::kAmax, nullptr);
    error.squared += quantise(rule_, &error.largest);
    const float scale = quant::bf16_to_float(space.narrow[group]);
    if (const uint8_t* bad = formats::first_infinite_int4(codes, scale)) {
      const size_t element = group * quant::kInt4Group + static_cast<size_t>(bad - codes.data());
      return not_finite(checkpoint_, *job.source,
                        rows.begin * columns + static_cast<int64_t>(element));
    }
    pack_group(codes.data(), &space.words[group * quant::kInt4Group / quant::kCodesPerWord]);
  }
  if (rule_ == ScaleRule::kAmax) error.amax_squared = error.squared;
  const auto first = static_cast<uint64_t>(rows.begin * columns);
  BH_TRY(target.out.write(target.first_part, first / 2, as_bytes(space.words)));
  BH_TRY(target.out.write(target.first_part + 1, first / kGroup * sizeof(quant::Bf16),
                          as_bytes(space.narrow)));
  return error;
}

}  // namespace bulkhead::model::write
