// The reader of `prompt`: one text, one list of token ids, or several of either.
#include <fmt/format.h>

#include "api/request/field_readers.h"
#include "api/request/json_input.h"
#include "api/request/refusals.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

Failure read_ids(const json::array& array, std::string_view path, const DecodeContext& context,
                 RequestFields& out) {
  if (array.empty()) {
    return invalid_value(std::string(path), fmt::format("{} must not be an empty array", path));
  }
  std::vector<wire::TokenId> ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    wire::TokenId id = 0;
    if (Failure failure = read_token_id(array[i], at_index(path, i), context, id)) {
      return failure;
    }
    ids.push_back(id);
  }
  out.prompts.emplace_back(std::move(ids));
  return std::nullopt;
}

Failure read_one(const json::value& value, const std::string& path, const DecodeContext& context,
                 RequestFields& out) {
  if (value.is_string()) {
    out.prompts.emplace_back(std::string(view(value.get_string())));
    return std::nullopt;
  }
  if (value.is_array()) return read_ids(value.get_array(), path, context, out);
  return wrong_type(path, "a string or an array of token ids", value);
}

}  // namespace

Failure read_prompt(json::value& value, const DecodeContext& context, RequestFields& out) {
  if (!value.is_array()) {
    if (!value.is_string()) return wrong_type("prompt", "a string or an array", value);
    return read_one(value, "prompt", context, out);
  }
  const json::array& array = value.get_array();
  const bool several = !array.empty() && (array.front().is_string() || array.front().is_array());
  if (!several) return read_ids(array, "prompt", context, out);
  if (array.size() > static_cast<size_t>(kChoicesMax)) {
    return too_many("prompt", static_cast<size_t>(kChoicesMax), array.size());
  }
  for (size_t i = 0; i < array.size(); ++i) {
    if (Failure failure = read_one(array[i], at_index("prompt", i), context, out)) return failure;
  }
  return std::nullopt;
}

}  // namespace bulkhead::api
