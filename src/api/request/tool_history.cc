#include "api/request/tool_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "api/request/json_input.h"

namespace bulkhead::api {
namespace {

namespace json = boost::json;

void for_each_call(json::value& message, const std::function<void(json::object&)>& use) {
  json::object* object = message.if_object();
  json::value* calls = object == nullptr ? nullptr : object->if_contains("tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (json::value& call : calls->get_array()) use(call.get_object());
}

std::string_view name_of(const json::object& call) {
  return view(call.at("function").at("name").get_string());
}

std::string id_of(const json::object& object, const char* key) {
  const json::value* id = object.if_contains(key);
  return id != nullptr && id->is_string() ? std::string(view(id->get_string())) : std::string();
}

// INDEX of functions.NAME:INDEX.
std::optional<uint64_t> kimi_index(std::string_view id, std::string_view name) {
  constexpr std::string_view kPrefix = "functions.";
  if (!id.starts_with(kPrefix)) return std::nullopt;
  id.remove_prefix(kPrefix.size());
  if (!id.starts_with(name) || !id.substr(name.size()).starts_with(':')) return std::nullopt;
  id.remove_prefix(name.size() + 1);
  uint32_t index = 0;  // no conversation has as many calls
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), index);
  if (error != std::errc() || end != id.data() + id.size()) return std::nullopt;
  return index;
}

class KimiIds {
 public:
  void rename(json::object& call) {
    const std::string given = id_of(call, "id");
    const std::string_view name = name_of(call);
    const std::optional<uint64_t> index = kimi_index(given, name);
    std::string id = given;
    if (index && taken_.insert(given).second) {
      next_ = std::max(next_, *index + 1);
    } else {
      do {
        id = fmt::format("functions.{}:{}", name, next_++);
      } while (!taken_.insert(id).second);
      call["id"] = id;
    }
    unanswered_.push_back({given, std::move(id)});
  }

  // A result belongs to the call of its id, or else to the first that has none yet.
  void answer(json::object& result) {
    if (unanswered_.empty()) return;
    const std::string given = id_of(result, "tool_call_id");
    auto call = std::find_if(unanswered_.begin(), unanswered_.end(),
                             [&](const Call& one) { return one.given == given; });
    if (call == unanswered_.end()) call = unanswered_.begin();
    result["tool_call_id"] = call->id;
    unanswered_.erase(call);
  }

  // A new turn: what has no result by now gets none.
  void turn() { unanswered_.clear(); }

 private:
  struct Call {
    std::string given;
    std::string id;
  };

  uint64_t next_ = 0;
  std::set<std::string, std::less<>> taken_;
  std::deque<Call> unanswered_;
};

}  // namespace

void fit_arguments(json::array& messages, const chat::TemplateTraits& traits) {
  for (json::value& message : messages) {
    for_each_call(message, [&](json::object& call) {
      json::value& arguments = call.at("function").at("arguments");
      if (arguments.is_string() && !traits.text_arguments) {
        json::object parsed;
        if (!parse_object(view(arguments.get_string()), parsed)) arguments = std::move(parsed);
      } else if (arguments.is_object() && !traits.object_arguments) {
        arguments = json::serialize(arguments);
      }
    });
  }
}

void use_kimi_ids(json::array& messages) {
  KimiIds ids;
  for (json::value& message : messages) {
    json::object& object = message.get_object();
    const std::string_view role = view(object.at("role").get_string());
    if (role == "tool") {
      ids.answer(object);
      continue;
    }
    ids.turn();
    for_each_call(message, [&](json::object& call) { ids.rename(call); });
  }
}

}  // namespace bulkhead::api
