#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>

namespace bulkhead::base {

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

Result<uint64_t> parse_bytes(std::string_view text) {
  uint64_t value = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  auto [rest, ec] = std::from_chars(begin, end, value);
  if (ec != std::errc() || rest == begin) {
    return invalid_argument("", fmt::format("'{}' is not a size; write e.g. 512M or 2G", text));
  }
  std::string suffix;
  for (; rest != end; ++rest) suffix += static_cast<char>(std::tolower(*rest));
  if (!suffix.empty() && suffix.back() == 'b') suffix.pop_back();
  if (!suffix.empty() && suffix.back() == 'i') suffix.pop_back();
  static constexpr std::string_view kSuffixes = "kmgt";
  uint64_t factor = 1;
  if (!suffix.empty()) {
    const size_t power = kSuffixes.find(suffix);
    if (suffix.size() != 1 || power == std::string_view::npos) {
      return invalid_argument("", fmt::format("'{}' has an unknown unit; use K, M, G or T", text));
    }
    factor = uint64_t{1} << (10 * (power + 1));
  }
  if (!checked_mul(value, factor, &value)) {
    return invalid_argument("", fmt::format("'{}' is larger than 2^64 bytes", text));
  }
  return value;
}

bool checked_mul(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}

bool checked_add(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}

}  // namespace bulkhead::base
