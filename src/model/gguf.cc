#include "model/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>

#include "base/units.h"
#include "base/utf8.h"
#include "model/safetensors.h"

namespace bulkhead::model {
namespace {

constexpr uint32_t kVersion = 3;
constexpr uint64_t kKeysMax = 65536;
constexpr uint64_t kKeyBytesMax = 4096;
constexpr uint64_t kStringBytesMax = 16u << 20;
constexpr uint64_t kArrayElementsMax = 4u << 20;  // all arrays of the file together
constexpr uint64_t kTableBytesMax = 512u << 20;   // metadata and tensor table
constexpr uint64_t kAlignmentMax = 1u << 20;
constexpr uint32_t kRankMax = 4;

enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBoolean,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kTypeCount
};

// Reads little-endian values front to back through a window; every failure names the byte.
class Cursor {
 public:
  explicit Cursor(const ByteSource& source)
      : source_(source), end_(std::min<uint64_t>(source.size(), kTableBytesMax)) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return end_ - position_; }

  base::Status bytes(std::span<std::byte> out) {
    if (out.size() > left()) {
      return fail(fmt::format("{} bytes are needed, {} are left{}", out.size(), left(),
                              end_ < source_.size() ? " of what a metadata table may take" : ""));
    }
    while (!out.empty()) {
      if (position_ < window_begin_ || position_ >= window_begin_ + window_.size()) {
        window_.resize(static_cast<size_t>(std::min<uint64_t>(kWindowBytes, left())));
        window_begin_ = position_;
        BH_TRY(source_.read(position_, window_));
      }
      const size_t at = static_cast<size_t>(position_ - window_begin_);
      const size_t count = std::min(out.size(), window_.size() - at);
      std::memcpy(out.data(), window_.data() + at, count);
      out = out.subspan(count);
      position_ += count;
    }
    return {};
  }

  template <typename T>
  base::Result<T> value() {
    std::array<std::byte, sizeof(T)> raw{};
    BH_TRY(bytes(raw));
    return std::bit_cast<T>(raw);
  }

  base::Result<std::string> text(uint64_t limit) {
    BH_ASSIGN(const uint64_t length, value<uint64_t>());
    if (length > left() || length > limit) {
      return fail(fmt::format("a string of {} bytes, but {} are left and {} allowed", length,
                              left(), limit));
    }
    std::string out(static_cast<size_t>(length), '\0');
    BH_TRY(bytes(std::as_writable_bytes(std::span<char>(out))));
    return out;
  }

  base::Error fail(std::string_view why) const {
    return base::corrupt(fmt::format("{}: byte {}: {}", source_.name(), position_, why));
  }

 private:
  static constexpr uint64_t kWindowBytes = 256u << 10;

  const ByteSource& source_;
  const uint64_t end_;
  uint64_t position_ = 0;
  uint64_t window_begin_ = 0;
  std::vector<std::byte> window_;
};

bool is_real(uint32_t type) { return type == kF32 || type == kF64; }

// Bytes of the smallest value of the type, to hold a claimed count against what is left.
uint64_t smallest_bytes(uint32_t type) {
  switch (type) {
    case kU8:
    case kI8:
    case kBoolean:
      return 1;
    case kU16:
    case kI16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    default:
      return 8;
  }
}

base::Result<double> read_real(Cursor& cursor, uint32_t type) {
  if (type == kF64) return cursor.value<double>();
  BH_ASSIGN(const float value, cursor.value<float>());
  return static_cast<double>(value);
}

template <typename T>
base::Result<int64_t> read_as(Cursor& cursor) {
  BH_ASSIGN(const T value, cursor.value<T>());
  return static_cast<int64_t>(value);
}

base::Result<int64_t> read_whole(Cursor& cursor, uint32_t type) {
  switch (type) {
    case kU8:
      return read_as<uint8_t>(cursor);
    case kI8:
      return read_as<int8_t>(cursor);
    case kU16:
      return read_as<uint16_t>(cursor);
    case kI16:
      return read_as<int16_t>(cursor);
    case kU32:
      return read_as<uint32_t>(cursor);
    case kI32:
      return read_as<int32_t>(cursor);
    case kI64:
      return read_as<int64_t>(cursor);
    case kBoolean: {
      BH_ASSIGN(const uint8_t value, cursor.value<uint8_t>());
      if (value > 1) return cursor.fail("a boolean that is neither 0 nor 1");
      return int64_t{value};
    }
    default: {
      BH_ASSIGN(const uint64_t value, cursor.value<uint64_t>());
      if (value > static_cast<uint64_t>(INT64_MAX)) return cursor.fail("a number beyond 2^63");
      return static_cast<int64_t>(value);
    }
  }
}

class Reader {
 public:
  Reader(const ByteSource& source, uint32_t file)
      : source_(source), file_(file), cursor_(source), out_{GgufMetadata(source.name()), {}} {}

  base::Result<GgufFile> read() {
    BH_TRY(read_preamble());
    for (uint64_t i = 0; i < key_count_; ++i) BH_TRY(read_pair());
    BH_TRY(read_alignment());
    for (uint64_t i = 0; i < tensor_count_; ++i) BH_TRY(read_tensor());
    BH_TRY(check_names());
    BH_TRY(place_tensors());
    return std::move(out_);
  }

 private:
  base::Status read_preamble() {
    constexpr uint32_t kMagic = 0x46554747;  // "GGUF", little-endian
    BH_ASSIGN(const uint32_t magic, cursor_.value<uint32_t>());
    if (magic != kMagic) {
      return base::corrupt(fmt::format("{}: byte 0: not a GGUF file", source_.name()));
    }
    BH_ASSIGN(const uint32_t version, cursor_.value<uint32_t>());
    if (version != kVersion) {
      return base::unsupported(fmt::format("{}: byte 4: GGUF version {}; version {} is supported",
                                           source_.name(), version, kVersion));
    }
    BH_ASSIGN(tensor_count_, cursor_.value<uint64_t>());
    if (tensor_count_ > kTensorsMax) {
      return cursor_.fail(
          fmt::format("{} tensors, at most {} are accepted", tensor_count_, kTensorsMax));
    }
    BH_ASSIGN(key_count_, cursor_.value<uint64_t>());
    if (key_count_ > kKeysMax) {
      return cursor_.fail(fmt::format("{} keys, at most {} are accepted", key_count_, kKeysMax));
    }
    return {};
  }

  base::Status read_pair() {
    BH_ASSIGN(std::string key, cursor_.text(kKeyBytesMax));
    if (!base::is_valid_utf8(key)) return cursor_.fail("a key that is not UTF-8");
    BH_ASSIGN(const uint32_t type, cursor_.value<uint32_t>());
    auto value = read_value(type);
    if (!value.ok()) return std::move(value).error().within(fmt::format("key \"{}\"", key));
    if (!out_.metadata.insert(key, std::move(value).value())) {
      return cursor_.fail(fmt::format("key \"{}\" appears twice", key));
    }
    return {};
  }

  base::Result<GgufValue> read_value(uint32_t type) {
    if (type >= kTypeCount) return cursor_.fail(fmt::format("unknown value type {}", type));
    if (type == kArray) return read_array();
    if (type == kString) {
      BH_ASSIGN(std::string text, cursor_.text(kStringBytesMax));
      return GgufValue(std::move(text));
    }
    if (is_real(type)) {
      BH_ASSIGN(const double value, read_real(cursor_, type));
      return GgufValue(value);
    }
    BH_ASSIGN(const int64_t value, read_whole(cursor_, type));
    if (type == kBoolean) return GgufValue(value == 1);
    return GgufValue(value);
  }

  base::Result<GgufValue> read_array() {
    BH_ASSIGN(const uint32_t type, cursor_.value<uint32_t>());
    BH_ASSIGN(const uint64_t count, cursor_.value<uint64_t>());
    if (type >= kTypeCount || type == kArray) {
      return cursor_.fail(fmt::format("an array of value type {} is not supported", type));
    }
    if (count > cursor_.left() / smallest_bytes(type)) {
      return cursor_.fail(
          fmt::format("an array of {} elements, but {} bytes are left", count, cursor_.left()));
    }
    elements_ += count;  // cannot wrap: count is below the file's size
    if (elements_ > kArrayElementsMax) {
      return cursor_.fail(
          fmt::format("more than {} array elements in the metadata", kArrayElementsMax));
    }
    if (type == kString) {
      return read_elements<std::string>(count, [&] { return cursor_.text(kStringBytesMax); });
    }
    if (is_real(type)) {
      return read_elements<double>(count, [&] { return read_real(cursor_, type); });
    }
    return read_elements<int64_t>(count, [&] { return read_whole(cursor_, type); });
  }

  template <typename T, typename Next>
  base::Result<GgufValue> read_elements(uint64_t count, Next&& next) {
    std::vector<T> values;
    values.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count; ++i) {
      BH_ASSIGN(T value, next());
      values.push_back(std::move(value));
    }
    return GgufValue(std::move(values));
  }

  base::Status read_alignment() {
    const FieldValue value = out_.metadata.find("general.alignment");
    if (std::holds_alternative<std::monostate>(value)) return {};
    const auto* alignment = std::get_if<int64_t>(&value);
    if (alignment == nullptr || *alignment < 1 ||
        static_cast<uint64_t>(*alignment) > kAlignmentMax ||
        !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
      return out_.metadata.refuse("general.alignment",
                                  fmt::format("must be a power of two up to {}", kAlignmentMax));
    }
    alignment_ = static_cast<uint64_t>(*alignment);
    return {};
  }

  base::Status read_tensor() {
    TensorInfo tensor;
    tensor.file = file_;
    BH_ASSIGN(tensor.name, cursor_.text(kKeyBytesMax));
    if (!base::is_valid_utf8(tensor.name)) return cursor_.fail("a tensor name that is not UTF-8");
    auto rest = read_tensor_facts(tensor);
    if (!rest.ok())
      return std::move(rest).error().within(fmt::format("tensor \"{}\"", tensor.name));
    out_.tensors.push_back(std::move(tensor));
    return {};
  }

  base::Status read_tensor_facts(TensorInfo& tensor) {
    BH_ASSIGN(const uint32_t rank, cursor_.value<uint32_t>());
    if (rank < 1 || rank > kRankMax) {
      return cursor_.fail(fmt::format("{} dimensions; 1 to {} are possible", rank, kRankMax));
    }
    tensor.elements = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      BH_ASSIGN(const uint64_t dim, cursor_.value<uint64_t>());
      if (!base::checked_mul(tensor.elements, dim, &tensor.elements)) {
        return cursor_.fail("the product of the dimensions overflows");
      }
      tensor.shape.push_back(dim);
    }
    const uint64_t columns = tensor.shape.front();
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    BH_ASSIGN(const uint32_t type, cursor_.value<uint32_t>());
    BH_TRY(set_type(type, tensor));
    const TypeUnit unit = unit_of(tensor.type);
    if (columns % unit.elements != 0) {
      return cursor_.fail(fmt::format("rows of {} elements are not whole {} blocks of {}", columns,
                                      to_string(tensor.type), unit.elements));
    }
    if (!base::checked_mul(tensor.elements / unit.elements, unit.bytes, &tensor.bytes)) {
      return cursor_.fail("the size in bytes overflows");
    }
    BH_ASSIGN(tensor.offset, cursor_.value<uint64_t>());
    if (tensor.offset % alignment_ != 0) {
      return cursor_.fail(
          fmt::format("offset {} is not a multiple of {}", tensor.offset, alignment_));
    }
    return {};
  }

  base::Status set_type(uint32_t id, TensorInfo& tensor) {
    switch (id) {
      case 0:
        tensor.type = TensorType::kF32;
        return {};
      case 1:
        tensor.type = TensorType::kF16;
        return {};
      case 2:
        tensor.type = TensorType::kQ4_0;
        return {};
      case 3:
        tensor.type = TensorType::kQ4_1;
        return {};
      case 6:
        tensor.type = TensorType::kQ5_0;
        return {};
      case 7:
        tensor.type = TensorType::kQ5_1;
        return {};
      case 8:
        tensor.type = TensorType::kQ8_0;
        return {};
      case 12:
        tensor.type = TensorType::kQ4_K;
        return {};
      case 13:
        tensor.type = TensorType::kQ5_K;
        return {};
      case 14:
        tensor.type = TensorType::kQ6_K;
        return {};
      case 30:
        tensor.type = TensorType::kBf16;
        return {};
      default:
        return base::unsupported(fmt::format(
            "{}: byte {}: type {} is not supported; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "
            "Q4_K, Q5_K and Q6_K are",
            source_.name(), cursor_.position() - sizeof(uint32_t), id));
    }
  }

  base::Status check_names() {
    std::vector<std::string_view> names;
    names.reserve(out_.tensors.size());
    for (const TensorInfo& tensor : out_.tensors) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice == names.end()) return {};
    return base::corrupt(fmt::format("{}: tensor \"{}\" is listed twice", source_.name(), *twice));
  }

  // Shifts offsets to the start of the file and demands that tensors follow each other with nothing
  // but alignment between them.
  base::Status place_tensors() {
    const uint64_t data_begin = align_up(cursor_.position());
    std::sort(out_.tensors.begin(), out_.tensors.end(),
              [](const TensorInfo& a, const TensorInfo& b) {
                return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
              });
    uint64_t expected =
        0;  // where the next tensor begins, from data_begin; at most the file's size
    uint64_t end = data_begin;
    for (TensorInfo& tensor : out_.tensors) {
      if (tensor.offset != expected) {
        return place_error(
            tensor, fmt::format("begins at byte {} of the data, but {} is expected "
                                "after the one before it ({})",
                                tensor.offset, expected,
                                tensor.offset < expected ? "they overlap" : "there is a hole"));
      }
      tensor.offset += data_begin;
      if (tensor.offset > source_.size() || tensor.bytes > source_.size() - tensor.offset) {
        return place_error(tensor,
                           fmt::format("needs {} bytes from byte {}, but the file ends at byte {}",
                                       tensor.bytes, tensor.offset, source_.size()));
      }
      end = tensor.offset + tensor.bytes;
      expected = align_up(end) - data_begin;
    }
    if (!out_.tensors.empty() && source_.size() > align_up(end)) {
      return base::corrupt(fmt::format("{}: byte {}: {} bytes after the last tensor belong to none",
                                       source_.name(), end, source_.size() - end));
    }
    return {};
  }

  base::Error place_error(const TensorInfo& tensor, std::string_view why) const {
    return base::corrupt(fmt::format("{}: tensor \"{}\" {}", source_.name(), tensor.name, why));
  }

  // No overflow: every value is at most a file's size plus one alignment.
  uint64_t align_up(uint64_t value) const { return (value + alignment_ - 1) & ~(alignment_ - 1); }

  const ByteSource& source_;
  const uint32_t file_;
  Cursor cursor_;
  GgufFile out_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t elements_ = 0;
  uint64_t alignment_ = 32;
};

}  // namespace

const GgufValue* GgufMetadata::get(std::string_view key) const {
  const auto found = values_.find(std::string(key));
  return found == values_.end() ? nullptr : &found->second;
}

FieldValue GgufMetadata::find(std::string_view key) const {
  const GgufValue* value = get(key);
  if (value == nullptr) return std::monostate{};
  if (const auto* whole = std::get_if<int64_t>(value)) return *whole;
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  if (const auto* text = std::get_if<std::string>(value)) return std::string_view(*text);
  return NotScalar{};
}

const std::vector<std::string>* GgufMetadata::strings(std::string_view key) const {
  const GgufValue* value = get(key);
  return value == nullptr ? nullptr : std::get_if<std::vector<std::string>>(value);
}

const std::vector<int64_t>* GgufMetadata::integers(std::string_view key) const {
  const GgufValue* value = get(key);
  return value == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(value);
}

std::vector<std::string> GgufMetadata::take_strings(std::string_view key) {
  const auto found = values_.find(std::string(key));
  if (found == values_.end()) return {};
  auto* strings = std::get_if<std::vector<std::string>>(&found->second);
  return strings == nullptr ? std::vector<std::string>{} : std::move(*strings);
}

bool GgufMetadata::insert(std::string key, GgufValue value) {
  return values_.emplace(std::move(key), std::move(value)).second;
}

bool GgufFile::has_tensor(std::string_view name) const {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const TensorInfo& tensor) { return tensor.name == name; });
}

base::Result<GgufFile> read_gguf(const ByteSource& source, uint32_t file) {
  return Reader(source, file).read();
}

}  // namespace bulkhead::model
