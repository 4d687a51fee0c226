#include "apps/bench/bounded_lines.h"

#include <fmt/format.h>

#include <utility>

namespace bulkhead::apps {

BoundedLines::BoundedLines(std::istream& in, std::string name, size_t bytes_max)
    : in_(in), name_(std::move(name)), buffer_(bytes_max + 2) {}

base::Result<bool> BoundedLines::next(std::string_view& line) {
  in_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  const auto taken = static_cast<size_t>(in_.gcount());
  if (taken == 0 && in_.eof()) return false;
  ++number_;
  if (in_.bad()) return wrong("cannot be read");
  const size_t bytes_max = buffer_.size() - 2;  // besides "\r" and the terminating zero
  // The line's end was taken, and is counted, unless the file ended before it.
  size_t length = in_.eof() || in_.fail() ? taken : taken - 1;
  if (length > 0 && buffer_[length - 1] == '\r') --length;
  if (in_.fail() || length > bytes_max) {
    return wrong(fmt::format("is longer than {} bytes", bytes_max));
  }
  line = std::string_view(buffer_.data(), length);
  return true;
}

base::Error BoundedLines::wrong(std::string_view what) const {
  return base::invalid_argument(name_, fmt::format("{} line {}: {}", name_, number_, what));
}

}  // namespace bulkhead::apps
