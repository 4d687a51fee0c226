#include "apps/eval/tasks/data_files.h"

#include <fmt/format.h>

#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {

namespace json = boost::json;

base::Result<std::string> read_data(const std::string& path, const Source& source) {
  base::Result<std::string> text = read_file(path);
  if (!text.ok() && text.error().code == base::ErrorCode::kNotFound) {
    return base::Error{base::ErrorCode::kNotFound,
                       fmt::format("there is no file {}: fetch {} of {}, or name with --data the "
                                   "folder that has eval/ and text/",
                                   path, source.files, source.origin),
                       "--data"};
  }
  return text;
}

base::Result<std::vector<json::object>> read_json_lines(const std::string& path,
                                                        const Source& source) {
  BH_ASSIGN(const std::string text, read_data(path, source));
  const std::vector<std::string_view> lines = lines_of(text);
  std::vector<json::object> objects;
  objects.reserve(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (stripped(lines[i]).empty()) continue;
    boost::system::error_code bad;
    json::value value = json::parse(lines[i], bad);
    if (bad || !value.is_object()) {
      return base::corrupt(fmt::format("{} line {} is no JSON object", path, i + 1));
    }
    objects.push_back(std::move(value.as_object()));
  }
  if (objects.empty()) return base::corrupt(path + " has no questions");
  return objects;
}

base::Result<std::string> need_text(const json::object& object, std::string_view name,
                                    const std::string& where) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) {
    return base::corrupt(fmt::format("{} has no text '{}'", where, name));
  }
  return std::string(value->as_string());
}

base::Result<size_t> need_shots(int wished, size_t usual, size_t there) {
  const size_t shots = wished < 0 ? usual : static_cast<size_t>(wished);
  if (shots > there) {
    return base::invalid_argument(
        "--shots",
        fmt::format("there are {} examples, not {}; take a smaller --shots", there, shots));
  }
  return shots;
}

}  // namespace bulkhead::apps::eval
