// Little-endian bytes as messages between processes are made of: a writer and a bounded reader.
//
// Threads: plain values. Invariants: the reader never reads past its input and never allocates more
// than the input could fill; after the first mistake it gives zeroes and ok() is false for good.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace bulkhead::wire {

class ByteWriter {
 public:
  // Appends to `out`, which outlives the writer.
  explicit ByteWriter(std::vector<std::byte>& out) : out_(out) {}

  template <typename T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  void put(T value) {
    auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i, bits >>= 8) {
      out_.push_back(static_cast<std::byte>(bits & 0xff));
    }
  }
  void put(float value) { put(std::bit_cast<uint32_t>(value)); }
  void bytes(std::span<const std::byte> data) { out_.insert(out_.end(), data.begin(), data.end()); }
  template <size_t n>
  void bytes(const std::array<uint8_t, n>& data) {
    bytes(std::as_bytes(std::span(data)));
  }
  // A count that fits 32 bits; what is counted follows.
  void count(size_t n) { put(static_cast<uint32_t>(n)); }
  void text(std::string_view value) {
    count(value.size());
    bytes(std::as_bytes(std::span(value)));
  }

 private:
  std::vector<std::byte>& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> input) : input_(input) {}

  bool ok() const { return ok_; }
  // Everything was read and nothing was wrong.
  bool finished() const { return ok_ && input_.empty(); }
  size_t remaining() const { return input_.size(); }
  void fail() {
    ok_ = false;
    input_ = {};
  }

  template <typename T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  T get() {
    const auto data = bytes(sizeof(T));
    uint64_t bits = 0;
    for (size_t i = 0; i < data.size(); ++i) {
      bits |= static_cast<uint64_t>(std::to_integer<uint8_t>(data[i])) << (8 * i);
    }
    return static_cast<T>(bits);
  }
  float get_float() { return std::bit_cast<float>(get<uint32_t>()); }
  // 0 or 1; anything else is a mistake.
  bool get_bool() {
    const auto value = get<uint8_t>();
    if (value > 1) fail();
    return ok_ && value == 1;
  }
  // first .. last of an enumeration whose values are those of a byte.
  template <typename E>
  E get_enum(E first, E last) {
    const auto value = get<uint8_t>();
    if (value < static_cast<uint8_t>(first) || value > static_cast<uint8_t>(last)) fail();
    return ok_ ? static_cast<E>(value) : first;
  }
  std::span<const std::byte> bytes(size_t n) {
    if (n > input_.size()) fail();
    if (!ok_) return {};
    const auto out = input_.first(n);
    input_ = input_.subspan(n);
    return out;
  }
  template <size_t n>
  std::array<uint8_t, n> array() {
    std::array<uint8_t, n> out{};
    const auto data = bytes(n);
    if (data.size() == n) std::memcpy(out.data(), data.data(), n);
    return out;
  }
  // A count of at most `max` things of at least `bytes_each` bytes, which must be there.
  size_t count(size_t max, size_t bytes_each) {
    const auto n = static_cast<size_t>(get<uint32_t>());
    if (n > max || n > input_.size() / std::max<size_t>(bytes_each, 1)) fail();
    return ok_ ? n : 0;
  }
  std::string text(size_t max) {
    const auto data = bytes(count(max, 1));
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

 private:
  std::span<const std::byte> input_;
  bool ok_ = true;
};

}  // namespace bulkhead::wire
