#include "chat/jinja/library/filters.h"

#include <algorithm>
#include <array>

#include "chat/jinja/library/filter_functions.h"

namespace bulkhead::chat::jinja {
namespace {

constexpr std::array kFilters = {
    FilterEntry{"abs", filters::absolute},
    FilterEntry{"attr", filters::attribute},
    FilterEntry{"batch", filters::batch},
    FilterEntry{"capitalize", filters::capitalize_text},
    FilterEntry{"center", filters::center},
    FilterEntry{"count", filters::length},
    FilterEntry{"d", filters::default_value},
    FilterEntry{"default", filters::default_value},
    FilterEntry{"dictsort", filters::dict_sort},
    FilterEntry{"e", filters::escape},
    FilterEntry{"escape", filters::escape},
    FilterEntry{"filesizeformat", filters::file_size},
    FilterEntry{"first", filters::first},
    FilterEntry{"float", filters::to_float},
    FilterEntry{"forceescape", filters::force_escape},
    FilterEntry{"format", filters::format},
    FilterEntry{"groupby", filters::group_by},
    FilterEntry{"indent", filters::indent},
    FilterEntry{"int", filters::to_int},
    FilterEntry{"items", filters::items},
    FilterEntry{"join", filters::join_items},
    FilterEntry{"last", filters::last},
    FilterEntry{"length", filters::length},
    FilterEntry{"list", filters::list},
    FilterEntry{"lower", filters::lower},
    FilterEntry{"map", filters::map},
    FilterEntry{"max", filters::maximum},
    FilterEntry{"min", filters::minimum},
    FilterEntry{"reject", filters::reject},
    FilterEntry{"rejectattr", filters::reject_attribute},
    FilterEntry{"replace", filters::replace_text},
    FilterEntry{"reverse", filters::reverse},
    FilterEntry{"round", filters::round_number},
    FilterEntry{"safe", filters::safe},
    FilterEntry{"select", filters::select},
    FilterEntry{"selectattr", filters::select_attribute},
    FilterEntry{"slice", filters::slices},
    FilterEntry{"sort", filters::sort},
    FilterEntry{"string", filters::string},
    FilterEntry{"striptags", filters::strip_tags},
    FilterEntry{"sum", filters::sum},
    FilterEntry{"title", filters::title_text},
    FilterEntry{"tojson", filters::to_json},
    FilterEntry{"trim", filters::trim},
    FilterEntry{"truncate", filters::truncate},
    FilterEntry{"unique", filters::unique},
    FilterEntry{"upper", filters::upper},
    FilterEntry{"urlencode", filters::url_encode},
    FilterEntry{"wordcount", filters::word_count},
};

}  // namespace

const FilterEntry* find_filter(std::string_view name) {
  const auto found = std::lower_bound(
      kFilters.begin(), kFilters.end(), name,
      [](const FilterEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != kFilters.end() && found->name == name ? &*found : nullptr;
}

Value Interpreter::call_filter(const Value& name, const Value& input, const Arguments& arguments) {
  const FilterEntry* filter = name.is_string() ? find_filter(name.view()) : nullptr;
  if (filter == nullptr) fail("No filter named '" + std::string(to_str(heap_, name).view()) + "'.");
  heap_.charge_step();
  return filter->function(*this, input, arguments);
}

bool Interpreter::call_test(const Value& name, const Value& input, const Arguments& arguments) {
  const TestEntry* test = name.is_string() ? find_test(name.view()) : nullptr;
  if (test == nullptr) fail("No test named '" + std::string(to_str(heap_, name).view()) + "'.");
  heap_.charge_step();
  return test->function(*this, input, arguments);
}

}  // namespace bulkhead::chat::jinja
