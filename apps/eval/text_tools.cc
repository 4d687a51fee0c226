#include "apps/eval/text_tools.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/utf8.h"

namespace bulkhead::apps::eval {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFileBytesMax = uint64_t{256} << 20;

// str.isspace() and \s of a str pattern, which agree.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

// Bytes of white space at the beginning.
size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const base::Utf8Char next = base::decode_utf8(text.substr(at));
    if (!next.valid || !is_space(next.code_point)) break;
    at += next.length;
  }
  return at;
}

}  // namespace

std::string_view stripped(std::string_view text) {
  text.remove_prefix(leading_space(text));
  size_t end = 0;  // after the last character that is no white space
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Char next = base::decode_utf8(text.substr(at));
    at += next.length;
    if (!next.valid || !is_space(next.code_point)) end = at;
  }
  return text.substr(0, end);
}

uint64_t characters(std::string_view text) {
  uint64_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    at += base::decode_utf8(text.substr(at)).length;
  }
  return count;
}

uint64_t split_count(std::string_view text) {
  uint64_t count = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t space = leading_space(text.substr(at));
    count += space > 0 ? 1 : 0;
    at += space > 0 ? space : base::decode_utf8(text.substr(at)).length;
  }
  return count;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const size_t found = text.find(from);
    out += text.substr(0, found);
    if (found == std::string_view::npos) return out;
    out += to;
    text.remove_prefix(found + from.size());
  }
}

base::Result<std::string> read_file(const std::string& path) {
  std::error_code bad;
  if (!fs::is_regular_file(path, bad)) {
    return base::Error{base::ErrorCode::kNotFound, "there is no file " + path, path};
  }
  const uint64_t bytes = fs::file_size(path, bad);
  if (!bad && bytes > kFileBytesMax) {
    return base::Error{base::ErrorCode::kResourceExhausted, path + " is larger than 256 MiB", path};
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(bad ? 0 : static_cast<size_t>(bytes), '\0');
  if (bad || !file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return base::Error{base::ErrorCode::kIo, "cannot read " + path, path};
  }
  return text;
}

base::Status write_file(const std::string& path, std::string_view text) {
  const std::string beside = path + ".tmp";
  std::ofstream file(beside, std::ios::trunc | std::ios::binary);
  file << text;
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    return base::Error{base::ErrorCode::kIo, "cannot write " + path, path};
  }
  return {};
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  lines.reserve(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace bulkhead::apps::eval
