#include "apps/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace bulkhead::apps {

base::Result<double> parse_number(const std::string& text, double low, double high) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end || !std::isfinite(number)) {
    return base::invalid_argument({}, fmt::format("{} is not a number", text));
  }
  if (number < low || number > high) {
    return base::invalid_argument({}, fmt::format("{} is not in {:g} to {:g}", text, low, high));
  }
  return number;
}

}  // namespace bulkhead::apps
