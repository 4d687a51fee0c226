#include "model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/json/basic_parser_impl.hpp>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "base/utf8.h"

namespace bulkhead::model {
namespace {

using boost::json::error_code;
using boost::json::string_view;

constexpr uint64_t kLengthBytes = 8;
constexpr size_t kRankMax = 16;

std::optional<TensorType> parse_type(std::string_view text) {
  static constexpr std::array kTypes = {
      TensorType::kF32,    TensorType::kF16,    TensorType::kBf16,   TensorType::kF64,
      TensorType::kF8E4M3, TensorType::kF8E5M2, TensorType::kF8E8M0, TensorType::kI64,
      TensorType::kI32,    TensorType::kI16,    TensorType::kI8,     TensorType::kU64,
      TensorType::kU32,    TensorType::kU16,    TensorType::kU8,     TensorType::kBool};
  for (const TensorType type : kTypes) {
    if (text == to_string(type)) return type;
  }
  return std::nullopt;
}

// Receives JSON events and keeps the first complaint; every container knows what it may hold.
class EventSink {
 public:
  static constexpr size_t max_object_size = static_cast<size_t>(-1);
  static constexpr size_t max_array_size = static_cast<size_t>(-1);
  static constexpr size_t max_key_size = 4096;
  static constexpr size_t max_string_size = static_cast<size_t>(-1);

  std::string complaint;

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_key_part(string_view part, size_t, error_code&) {
    key_.append(part.data(), part.size());
    return true;
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 protected:
  bool refuse(error_code& ec, std::string why) {
    complaint = std::move(why);
    ec = make_error_code(boost::json::error::exception);
    return false;
  }
  void finish_key(string_view part) { key_.append(part.data(), part.size()); }
  std::string take_key() { return std::exchange(key_, {}); }

 private:
  std::string key_;
};

// The header: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
// "__metadata__": {"key": "text"}}. Offsets are kept relative to the data; the caller shifts them.
class HeaderSink final : public EventSink {
 public:
  std::vector<TensorInfo> tensors;

  bool on_object_begin(error_code& ec) {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) return unexpected(ec, "an object");
    if (name_ == "__metadata__") {
      place_ = Place::kMetadata;
      return true;
    }
    if (tensors.size() == kTensorsMax) {
      return refuse(ec, fmt::format("more than {} tensors", kTensorsMax));
    }
    place_ = Place::kEntry;
    tensors.push_back({});
    tensors.back().name = name_;
    type_seen_ = shape_seen_ = offsets_seen_ = false;
    return true;
  }

  bool on_object_end(size_t, error_code& ec) {
    if (place_ == Place::kEntry) {
      if (!type_seen_) return missing(ec, "dtype");
      if (!shape_seen_) return missing(ec, "shape");
      if (!offsets_seen_) return missing(ec, "data_offsets");
    }
    place_ = place_ == Place::kTop ? Place::kDone : Place::kTop;
    return true;
  }

  bool on_key(string_view part, size_t, error_code& ec) {
    finish_key(part);
    std::string key = take_key();
    if (place_ == Place::kTop) {
      if (!base::is_valid_utf8(key)) return refuse(ec, "a tensor name that is not UTF-8");
      name_ = std::move(key);
      return true;
    }
    if (place_ == Place::kMetadata) return true;
    bool* seen = key == "dtype"          ? &type_seen_
                 : key == "shape"        ? &shape_seen_
                 : key == "data_offsets" ? &offsets_seen_
                                         : nullptr;
    if (seen == nullptr) {
      return refuse(ec, fmt::format("tensor \"{}\": unknown field \"{}\"", name_, key));
    }
    if (*seen) return refuse(ec, fmt::format("tensor \"{}\": field \"{}\" twice", name_, key));
    *seen = true;
    field_ = std::move(key);
    return true;
  }

  bool on_array_begin(error_code& ec) {
    if (place_ != Place::kEntry || field_ == "dtype") return unexpected(ec, "an array");
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool on_array_end(size_t count, error_code& ec) {
    if (place_ == Place::kOffsets && count != 2) {
      return refuse(ec,
                    fmt::format("tensor \"{}\": data_offsets has {} numbers, not 2", name_, count));
    }
    place_ = Place::kEntry;
    return true;
  }

  bool on_string_part(string_view part, size_t, error_code&) {
    if (place_ == Place::kEntry) text_.append(part.data(), part.size());
    return true;
  }

  bool on_string(string_view part, size_t, error_code& ec) {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kEntry || field_ != "dtype") return unexpected(ec, "a string");
    text_.append(part.data(), part.size());
    const std::string text = std::exchange(text_, {});
    const auto type = parse_type(text);
    if (!type) {
      return refuse(ec, fmt::format("tensor \"{}\": dtype \"{}\" is not supported", name_,
                                    text.substr(0, 32)));
    }
    tensors.back().type = *type;
    return true;
  }

  bool on_int64(int64_t value, string_view, error_code& ec) {
    if (value < 0) return unexpected(ec, "a negative number");
    return on_number(static_cast<uint64_t>(value), ec);
  }
  bool on_uint64(uint64_t value, string_view, error_code& ec) { return on_number(value, ec); }
  bool on_double(double, string_view, error_code& ec) {
    return unexpected(ec, "a number that is not a 64-bit whole number");
  }
  bool on_bool(bool, error_code& ec) { return unexpected(ec, "a boolean"); }
  bool on_null(error_code& ec) { return unexpected(ec, "null"); }

 private:
  enum class Place { kStart, kTop, kEntry, kShape, kOffsets, kMetadata, kDone };

  bool on_number(uint64_t value, error_code& ec) {
    TensorInfo* tensor = tensors.empty() ? nullptr : &tensors.back();
    if (place_ == Place::kShape) {
      if (tensor->shape.size() == kRankMax) {
        return refuse(ec, fmt::format("tensor \"{}\": more than {} dimensions", name_, kRankMax));
      }
      tensor->shape.push_back(value);
      return true;
    }
    if (place_ != Place::kOffsets) return unexpected(ec, "a number");
    // The first number is kept as the begin, the second as the end until the range is checked.
    if (offsets_given_++ % 2 == 0) {
      tensor->offset = value;
    } else {
      tensor->bytes = value;
    }
    return true;
  }

  bool unexpected(error_code& ec, std::string_view what) {
    return refuse(ec, name_.empty() ? fmt::format("unexpected {}", what)
                                    : fmt::format("\"{}\": unexpected {}", name_, what));
  }
  bool missing(error_code& ec, std::string_view field) {
    return refuse(ec, fmt::format("tensor \"{}\": no {}", name_, field));
  }

  Place place_ = Place::kStart;
  std::string name_;
  std::string field_;
  std::string text_;
  bool type_seen_ = false;
  bool shape_seen_ = false;
  bool offsets_seen_ = false;
  uint64_t offsets_given_ = 0;
};

// The index: {"weight_map": {"tensor": "file"}, anything else}.
class IndexSink final : public EventSink {
 public:
  std::vector<std::pair<std::string, std::string>> entries;
  bool found = false;

  bool on_object_begin(error_code& ec) {
    ++depth_;
    if (in_map_) return refuse(ec, "weight_map: a file name must be a string");
    if (depth_ == 2 && key_of_top_ == "weight_map") {
      if (found) return refuse(ec, "weight_map twice");
      in_map_ = found = true;
    }
    return true;
  }
  bool on_object_end(size_t, error_code&) {
    --depth_;
    in_map_ = false;
    return true;
  }
  bool on_key(string_view part, size_t, error_code&) {
    finish_key(part);
    std::string key = take_key();
    if (depth_ == 1) key_of_top_ = key;
    if (in_map_) tensor_ = std::move(key);
    return true;
  }
  bool on_array_begin(error_code& ec) {
    ++depth_;
    return !in_map_ || refuse(ec, "weight_map: a file name must be a string");
  }
  bool on_array_end(size_t, error_code&) {
    --depth_;
    return true;
  }
  bool on_string_part(string_view part, size_t, error_code&) {
    if (in_map_) text_.append(part.data(), part.size());
    return true;
  }
  bool on_string(string_view part, size_t, error_code& ec) {
    if (!in_map_) return true;
    if (entries.size() == kTensorsMax) {
      return refuse(ec, fmt::format("more than {} tensors", kTensorsMax));
    }
    text_.append(part.data(), part.size());
    entries.emplace_back(std::move(tensor_), std::exchange(text_, {}));
    return true;
  }
  bool on_int64(int64_t, string_view, error_code& ec) { return scalar(ec); }
  bool on_uint64(uint64_t, string_view, error_code& ec) { return scalar(ec); }
  bool on_double(double, string_view, error_code& ec) { return scalar(ec); }
  bool on_bool(bool, error_code& ec) { return scalar(ec); }
  bool on_null(error_code& ec) { return scalar(ec); }

 private:
  bool scalar(error_code& ec) {
    return !in_map_ || refuse(ec, "weight_map: a file name must be a string");
  }

  int depth_ = 0;
  bool in_map_ = false;
  std::string key_of_top_;
  std::string tensor_;
  std::string text_;
};

// Runs `text` through a parser into its handler; `base_offset` is where text starts in the file.
template <typename Sink>
base::Status parse_into(std::string_view file, std::string_view text, uint64_t base_offset,
                        boost::json::basic_parser<Sink>& parser) {
  error_code ec;
  size_t used = parser.write_some(false, text.data(), text.size(), ec);
  if (!ec && used < text.size()) ec = make_error_code(boost::json::error::extra_data);
  if (!ec) return {};
  const std::string& complaint = parser.handler().complaint;
  return base::corrupt(fmt::format("{}: byte {}: {}", file, base_offset + used,
                                   complaint.empty() ? ec.message() : complaint));
}

// The bytes that shape and type ask for, or an error when they do not fit 64 bits.
base::Status size_tensor(const ByteSource& source, TensorInfo& tensor) {
  uint64_t elements = 1;
  for (const uint64_t dim : tensor.shape) {
    if (!base::checked_mul(elements, dim, &elements)) {
      return base::corrupt(fmt::format("{}: tensor \"{}\": shape {} overflows", source.name(),
                                       tensor.name, shape_text(tensor.shape)));
    }
  }
  uint64_t bytes = 0;
  if (!base::checked_mul(elements, unit_of(tensor.type).bytes, &bytes)) {
    return base::corrupt(fmt::format("{}: tensor \"{}\": shape {} overflows", source.name(),
                                     tensor.name, shape_text(tensor.shape)));
  }
  const uint64_t end = tensor.bytes;
  if (end < tensor.offset || end - tensor.offset != bytes) {
    return base::corrupt(fmt::format(
        "{}: tensor \"{}\": data_offsets [{}, {}] do not hold shape {} of {} ({} bytes)",
        source.name(), tensor.name, tensor.offset, end, shape_text(tensor.shape),
        to_string(tensor.type), bytes));
  }
  tensor.elements = elements;
  tensor.bytes = bytes;
  return {};
}

// Sorts by place and demands that the data is covered exactly; shifts offsets to the file's start.
base::Status check_coverage(const ByteSource& source, uint64_t data_begin,
                            std::vector<TensorInfo>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  uint64_t expected = 0;
  for (TensorInfo& tensor : tensors) {
    if (tensor.offset != expected) {
      return base::corrupt(fmt::format(
          "{}: tensor \"{}\" begins at byte {} of the data, but {} is where the one before it ends "
          "({})",
          source.name(), tensor.name, tensor.offset, expected,
          tensor.offset < expected ? "they overlap" : "there is a hole"));
    }
    expected += tensor.bytes;  // cannot wrap: offset + bytes was a 64-bit number in the file
    tensor.offset += data_begin;
  }
  const uint64_t data_bytes = source.size() - data_begin;
  if (expected != data_bytes) {
    return base::corrupt(fmt::format(
        "{}: the tensors end at byte {} of the data, which has {} "
        "bytes ({})",
        source.name(), expected, data_bytes,
        expected > data_bytes ? "the file is cut short" : "the rest belongs to no tensor"));
  }
  return {};
}

base::Status check_unique(const ByteSource& source, const std::vector<TensorInfo>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return base::corrupt(fmt::format("{}: tensor \"{}\" is listed twice", source.name(), *twice));
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

base::Result<std::vector<TensorInfo>> read_safetensors(const ByteSource& source, uint32_t file) {
  std::array<std::byte, kLengthBytes> length_bytes{};
  if (source.size() < kLengthBytes) {
    return base::corrupt(fmt::format("{}: {} bytes long, too short for a safetensors file",
                                     source.name(), source.size()));
  }
  BH_TRY(source.read(0, length_bytes));
  const auto length = std::bit_cast<uint64_t>(length_bytes);
  if (length > source.size() - kLengthBytes || length > kSafetensorsHeaderMax) {
    return base::corrupt(fmt::format(
        "{}: byte 0: the header claims {} bytes, but the file holds {} after it and {} are allowed",
        source.name(), length, source.size() - kLengthBytes, kSafetensorsHeaderMax));
  }
  std::string header(static_cast<size_t>(length), '\0');
  BH_TRY(source.read(kLengthBytes, std::as_writable_bytes(std::span<char>(header))));
  if (header.empty() || header.front() != '{') {
    return base::corrupt(
        fmt::format("{}: byte {}: the header must begin with '{{'", source.name(), kLengthBytes));
  }
  boost::json::basic_parser<HeaderSink> parser{boost::json::parse_options{}};
  BH_TRY(parse_into(source.name(), header, kLengthBytes, parser));
  std::vector<TensorInfo> tensors = std::move(parser.handler().tensors);
  BH_TRY(check_unique(source, tensors));
  for (TensorInfo& tensor : tensors) {
    BH_TRY(size_tensor(source, tensor));
    tensor.file = file;
  }
  BH_TRY(check_coverage(source, kLengthBytes + length, tensors));
  return tensors;
}

base::Result<ShardIndex> parse_shard_index(std::string_view name, std::string_view text) {
  boost::json::basic_parser<IndexSink> parser{boost::json::parse_options{}};
  BH_TRY(parse_into(name, text, 0, parser));
  IndexSink& sink = parser.handler();
  if (!sink.found || sink.entries.empty()) {
    return base::corrupt(fmt::format("{}: no weight_map, or an empty one", name));
  }
  std::sort(sink.entries.begin(), sink.entries.end());
  ShardIndex index;
  for (const auto& [tensor, shard] : sink.entries) {
    if (!is_plain_file_name(shard)) {
      return base::corrupt(fmt::format(
          "{}: tensor \"{}\": \"{}\" is not a plain file name inside the checkpoint's directory",
          name, tensor, shard.substr(0, 64)));
    }
    index.files.push_back(shard);
  }
  std::sort(index.files.begin(), index.files.end());
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());
  if (index.files.size() > kShardsMax) {
    return base::corrupt(fmt::format("{}: {} shards, at most {} are accepted", name,
                                     index.files.size(), kShardsMax));
  }
  for (auto& [tensor, shard] : sink.entries) {
    if (!index.tensors.empty() && index.tensors.back().first == tensor) {
      return base::corrupt(fmt::format("{}: tensor \"{}\" is listed twice", name, tensor));
    }
    const auto place = std::lower_bound(index.files.begin(), index.files.end(), shard);
    index.tensors.emplace_back(std::move(tensor),
                               static_cast<uint32_t>(place - index.files.begin()));
  }
  return index;
}

base::Status check_shard(const ShardIndex& index, std::string_view index_name, uint32_t file,
                         std::span<const TensorInfo> tensors) {
  size_t promised = 0;
  for (const auto& [tensor, place] : index.tensors) promised += place == file ? 1 : 0;
  for (const TensorInfo& tensor : tensors) {
    const auto entry =
        std::lower_bound(index.tensors.begin(), index.tensors.end(), tensor.name,
                         [](const auto& a, const std::string& b) { return a.first < b; });
    if (entry == index.tensors.end() || entry->first != tensor.name || entry->second != file) {
      return base::corrupt(fmt::format("{}: tensor \"{}\" is in this file, but {} does not say so",
                                       index.files[file], tensor.name, index_name));
    }
  }
  if (promised == tensors.size()) return {};
  std::vector<std::string_view> present;
  present.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) present.push_back(tensor.name);
  std::sort(present.begin(), present.end());
  for (const auto& [name, place] : index.tensors) {
    if (place == file && !std::binary_search(present.begin(), present.end(), name)) {
      return base::corrupt(fmt::format("{}: tensor \"{}\" should be in this file ({}), but is not",
                                       index.files[file], name, index_name));
    }
  }
  BH_CHECK(false, "counts differ although every tensor was found");
}

}  // namespace bulkhead::model
