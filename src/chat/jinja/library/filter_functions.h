// The filters themselves; the table that names them is filters.cc.
//
// Threads: inside one render. Invariant: the value filtered is `self`.
#pragma once

#include <functional>
#include <vector>

#include "chat/jinja/interpreter.h"

namespace bulkhead::chat::jinja::filters {

#define BH_DECLARE_FILTER(name) \
  Value name(Interpreter& in, const Value& self, const Arguments& arguments)

// filters_text.cc
BH_DECLARE_FILTER(capitalize_text);
BH_DECLARE_FILTER(center);
BH_DECLARE_FILTER(escape);
BH_DECLARE_FILTER(force_escape);
BH_DECLARE_FILTER(format);
BH_DECLARE_FILTER(indent);
BH_DECLARE_FILTER(lower);
BH_DECLARE_FILTER(replace_text);
BH_DECLARE_FILTER(safe);
BH_DECLARE_FILTER(string);
BH_DECLARE_FILTER(strip_tags);
BH_DECLARE_FILTER(title_text);
BH_DECLARE_FILTER(trim);
BH_DECLARE_FILTER(truncate);
BH_DECLARE_FILTER(upper);
BH_DECLARE_FILTER(url_encode);
BH_DECLARE_FILTER(word_count);
// filters_number.cc
BH_DECLARE_FILTER(absolute);
BH_DECLARE_FILTER(file_size);
BH_DECLARE_FILTER(to_float);
BH_DECLARE_FILTER(to_int);
BH_DECLARE_FILTER(round_number);
// filters_sequence.cc
BH_DECLARE_FILTER(batch);
BH_DECLARE_FILTER(first);
BH_DECLARE_FILTER(items);
BH_DECLARE_FILTER(join_items);
BH_DECLARE_FILTER(last);
BH_DECLARE_FILTER(length);
BH_DECLARE_FILTER(list);
BH_DECLARE_FILTER(reverse);
BH_DECLARE_FILTER(slices);
BH_DECLARE_FILTER(sum);
BH_DECLARE_FILTER(to_json);
BH_DECLARE_FILTER(default_value);
// filters_select.cc
BH_DECLARE_FILTER(attribute);
BH_DECLARE_FILTER(dict_sort);
BH_DECLARE_FILTER(group_by);
BH_DECLARE_FILTER(map);
BH_DECLARE_FILTER(maximum);
BH_DECLARE_FILTER(minimum);
BH_DECLARE_FILTER(reject);
BH_DECLARE_FILTER(reject_attribute);
BH_DECLARE_FILTER(select);
BH_DECLARE_FILTER(select_attribute);
BH_DECLARE_FILTER(sort);
BH_DECLARE_FILTER(unique);

#undef BH_DECLARE_FILTER

// What lazy filters return. `fill` adds the items; what it cannot do is raised when the iterator is
// used up, as Python's generators do.
Value make_iterator(Heap& heap, const std::function<void(std::vector<Value>&)>& fill);

}  // namespace bulkhead::chat::jinja::filters
