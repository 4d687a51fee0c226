#include "chat/jinja/from_json.h"

#include <string>

#include "base/utf8.h"

namespace bulkhead::chat::jinja {
namespace {

Value from_text(Heap& heap, const boost::json::string& text) {
  const std::string_view view(text.data(), text.size());
  return base::is_valid_utf8(view) ? make_string(heap, view)
                                   : make_string(heap, base::to_valid_utf8(view));
}

Value from_object(Heap& heap, const boost::json::object& object, uint32_t depth) {
  DictObject* dict = heap.make<DictObject>();
  for (const auto& member : object) {
    const std::string_view name(member.key().data(), member.key().size());
    const Value key = make_string(heap, base::to_valid_utf8(name));
    dict_set(heap, *dict, key, from_json(heap, member.value(), depth + 1));
  }
  return Value::dict(dict);
}

}  // namespace

Value from_json(Heap& heap, const boost::json::value& json, uint32_t depth) {
  if (depth > kMaxValueDepth) fail_limit("the conversation is nested too deeply");
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::none();
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64:
      return Value::integer(static_cast<Int>(json.get_uint64()));
    case boost::json::kind::double_:
      return Value::floating(json.get_double());
    case boost::json::kind::string:
      return from_text(heap, json.get_string());
    case boost::json::kind::array: {
      std::vector<Value> items;
      for (const boost::json::value& item : json.get_array()) {
        items.push_back(from_json(heap, item, depth + 1));
      }
      return Value::list(make_list(heap, std::move(items)));
    }
    case boost::json::kind::object:
      return from_object(heap, json.get_object(), depth);
  }
  return Value::none();
}

}  // namespace bulkhead::chat::jinja
