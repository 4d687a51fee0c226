#include "serve/key_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace bulkhead::serve {
namespace {

constexpr size_t kFileBytesMax = 4u << 20;

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = line.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kSpace) - begin + 1);
}

// `place` stands for the key in what is said about it.
base::Status check_key(std::string_view key, const std::string& flag, const std::string& place) {
  if (key.empty()) return base::invalid_argument(flag, place + " is empty");
  if (key.size() > kKeyBytesMax) {
    return base::invalid_argument(
        flag, fmt::format("{} has {} bytes, at most {}", place, key.size(), kKeyBytesMax));
  }
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (!plain) {
    return base::invalid_argument(
        flag, place +
                  " holds a character that no header can carry: a key is printable ASCII "
                  "without spaces");
  }
  return {};
}

base::Error cannot_read(const std::string& path, const std::string& flag) {
  return base::Error{base::ErrorCode::kIo, fmt::format("{}: cannot read {}", flag, path), flag};
}

base::Result<std::string> read_text(const std::string& path, const std::string& flag) {
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec)) return cannot_read(path, flag);
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) return cannot_read(path, flag);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) {
    return base::invalid_argument(
        flag, fmt::format("{}: {} is larger than {} bytes", flag, path, kFileBytesMax));
  }
  return text;
}

}  // namespace

base::Result<KeyFile> read_key_file(const std::string& path, const std::string& flag) {
  BH_ASSIGN(const std::string text, read_text(path, flag));
  KeyFile file;
  std::error_code ec;
  const auto mode = std::filesystem::status(path, ec).permissions();
  const auto may = [&](std::filesystem::perms who) {
    return !ec && (mode & who) != std::filesystem::perms::none;
  };
  file.open_to_others = may(std::filesystem::perms::others_read);
  file.open_to_group = may(std::filesystem::perms::group_read);
  std::string_view rest = text;
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const std::string_view line = trimmed(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    BH_TRY(check_key(line, flag, fmt::format("{}: the key in {}:{}", flag, path, number)));
    file.keys.emplace_back(line);
    if (file.keys.size() > kKeysMax) {
      return base::invalid_argument(
          flag, fmt::format("{}: {} holds more than {} keys", flag, path, kKeysMax));
    }
  }
  if (file.keys.empty()) {
    return base::invalid_argument(
        flag, fmt::format("{}: {} holds no key; one a line is expected", flag, path));
  }
  return file;
}

base::Result<Keys> collect_keys(const ServeOptions& options) {
  Keys keys;
  for (const std::string& key : options.api_keys) {
    BH_TRY(check_key(key, "--api-key", "a key given with --api-key (or BULKHEAD_API_KEY)"));
    keys.api.push_back(key);
  }
  if (!options.api_key_file.empty()) {
    BH_ASSIGN(KeyFile file, read_key_file(options.api_key_file, "--api-key-file"));
    keys.file_open_to_others = file.open_to_others;
    keys.api.insert(keys.api.end(), file.keys.begin(), file.keys.end());
  }
  if (options.admin_key.empty()) return keys;
  BH_TRY(check_key(options.admin_key, "--admin-key",
                   "the key given with --admin-key (or BULKHEAD_ADMIN_KEY)"));
  if (std::find(keys.api.begin(), keys.api.end(), options.admin_key) != keys.api.end()) {
    return base::invalid_argument("--admin-key",
                                  "the admin key is an API key too, so a client could administer "
                                  "the server; choose another");
  }
  keys.admin = options.admin_key;
  return keys;
}

}  // namespace bulkhead::serve
