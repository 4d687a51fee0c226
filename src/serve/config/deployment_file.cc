// The one translation unit that includes toml++, which is slow to compile.
#include "serve/config/deployment_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <optional>

#include "serve/config/option_table.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace bulkhead::serve {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;
// toml++ builds and frees one table inside the other for each dot of a key, by recursion.
constexpr int kDotsMax = 64;  // of a line

// A pool's section, or anything else that has dots in its name.
bool is_section(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  for (const OptionSpec& spec : option_table()) {
    if (spec.name.starts_with(prefix)) return true;
  }
  return false;
}

std::string_view wanted(OptionType type) {
  switch (type) {
    case OptionType::kInteger:
      return "an integer";
    case OptionType::kSize:
      return "a size: bytes, or a text like \"512M\" or \"2G\"";
    case OptionType::kSwitch:
      return "true or false";
    case OptionType::kList:
      return "a text or a list of texts";
    case OptionType::kText:
    case OptionType::kChoice:
      return "a text in quotes";
  }
  return "a value";
}

// The value as its flag would give it; nothing when it is of another type.
std::optional<std::string> scalar(const toml::node& node, OptionType type) {
  const bool number = type == OptionType::kInteger || type == OptionType::kSize;
  const bool text = type != OptionType::kInteger && type != OptionType::kSwitch;
  if (const auto* value = node.as_integer(); value != nullptr && number) {
    return std::to_string(value->get());
  }
  if (const auto* value = node.as_string(); value != nullptr && text) return value->get();
  if (const auto* value = node.as_boolean(); value != nullptr && type == OptionType::kSwitch) {
    return value->get() ? "true" : "false";
  }
  return std::nullopt;
}

bool read_values(const toml::node& node, OptionType type, std::vector<std::string>& values) {
  const toml::array* list = node.as_array();
  if (list == nullptr) {
    auto value = scalar(node, type);
    if (value) values.push_back(std::move(*value));
    return value.has_value();
  }
  if (type != OptionType::kList) return false;
  values.reserve(list->size());
  for (const toml::node& element : *list) {
    auto value = scalar(element, type);
    if (!value) return false;
    values.push_back(std::move(*value));
  }
  return true;
}

class Reader {
 public:
  explicit Reader(const std::string& file_name) : file_name_(file_name) {}

  // `prefix` is empty or ends with a dot.
  base::Status read(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      const auto line = static_cast<int>(key.source().begin.line);
      if (const toml::table* inner = node.as_table(); inner != nullptr && is_section(name)) {
        BH_TRY(read(*inner, name + "."));
        continue;
      }
      const OptionSpec* spec = find_option(name);
      if (spec == nullptr) {
        const std::string nearest = nearest_option(name);
        return error(line, fmt::format("there is no option {}; {}", name,
                                       nearest.empty() ? "bulkhead serve --help lists them"
                                                       : "the nearest is " + nearest));
      }
      FileEntry entry{name, {}, line};
      if (!read_values(node, spec->type, entry.values)) {
        return error(line, fmt::format("{} is {}", name, wanted(spec->type)));
      }
      for (const FileEntry& other : entries_) {
        if (other.name != name) continue;
        return error(line, fmt::format("{} stands in line {} already", name, other.line));
      }
      entries_.push_back(std::move(entry));
    }
    return {};
  }
  base::Error error(int line, const std::string& message) const {
    return base::invalid_argument(fmt::format("{}:{}", file_name_, line),
                                  fmt::format("{}:{}: {}", file_name_, line, message));
  }
  std::vector<FileEntry> take() { return std::move(entries_); }

 private:
  const std::string& file_name_;
  std::vector<FileEntry> entries_;
};

// Walks over a file and tells what stands in quotes or in a comment, as TOML delimits them. A text
// of one line ends with its line, closed or not: what follows an unclosed one is an error to come.
class QuoteScanner {
 public:
  explicit QuoteScanner(std::string_view text) : text_(text) {}

  // Whether the character at `at` may be part of a bare key. Called for every position in order.
  bool is_bare(size_t at) {
    if (at < skip_to_) return false;
    const char c = text_[at];
    if (c == '\n' && !whole_) quote_ = 0;
    if (c == '\n') return false;
    if (quote_ == 0) return open(at, c);
    if (c == '\\' && quote_ == '"') {
      skip_to_ = at + 2;
    } else if (c == quote_) {
      close(at);
    }
    return false;
  }

 private:
  size_t run(size_t at, char c, size_t most) const {
    size_t n = 0;
    while (n < most && at + n < text_.size() && text_[at + n] == c) ++n;
    return n;
  }
  bool open(size_t at, char c) {
    whole_ = false;
    if (c == '#') quote_ = '#';
    if (c != '"' && c != '\'') return quote_ == 0;
    quote_ = c;
    whole_ = run(at, c, 3) == 3;
    if (whole_) skip_to_ = at + 3;
    return false;
  }
  // The last three of up to five quotes end a text of several lines.
  void close(size_t at) {
    const size_t quotes = run(at, quote_, 5);
    if (whole_ && quotes < 3) return;
    skip_to_ = at + (whole_ ? quotes : 1);
    quote_ = 0;
    whole_ = false;
  }

  std::string_view text_;
  char quote_ = 0;      // what ends what we are in; '#': a comment
  bool whole_ = false;  // over several lines
  size_t skip_to_ = 0;
};

// The first line whose keys have more dots than any of ours; 0: none has. Texts and comments may
// have as many as they like: a list of addresses has four each.
int line_of_dots(std::string_view text) {
  int line = 1;
  int dots = 0;
  QuoteScanner scanner(text);
  for (size_t at = 0; at < text.size(); ++at) {
    if (scanner.is_bare(at) && text[at] == '.' && ++dots > kDotsMax) return line;
    if (text[at] != '\n') continue;
    ++line;
    dots = 0;
  }
  return 0;
}

}  // namespace

base::Result<std::vector<FileEntry>> parse_deployment(std::string_view text,
                                                      const std::string& file_name) {
  Reader reader(file_name);
  if (const int line = line_of_dots(text); line > 0) {
    return reader.error(line, fmt::format("keys have at most {} dots in a line", kDotsMax));
  }
  const toml::parse_result parsed = toml::parse(text, file_name);
  if (!parsed) {
    return reader.error(static_cast<int>(parsed.error().source().begin.line),
                        std::string(parsed.error().description()));
  }
  BH_TRY(reader.read(parsed.table(), ""));
  return reader.take();
}

base::Result<std::vector<FileEntry>> read_deployment_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.eof() || file.bad()) {
    const bool large = file.gcount() == static_cast<std::streamsize>(text.size());
    return base::invalid_argument(
        path, large ? fmt::format("{}: a deployment file is at most {} bytes", path, kFileBytesMax)
                    : fmt::format("{}: cannot be read", path));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_deployment(text, path);
}

}  // namespace bulkhead::serve
