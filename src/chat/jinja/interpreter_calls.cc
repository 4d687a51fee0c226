// Calling things, and the attributes that belong to the interpreter's own objects.
#include <algorithm>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/strings.h"

namespace bulkhead::chat::jinja {
namespace {

std::string_view object_repr(const Value& object) {
  // jinja2's object_type_repr: None is itself, everything else its type.
  return object.is_none() ? "None" : type_name(object);
}

// Counts one call on the way in, out on every way out.
class CallCount {
 public:
  CallCount(uint32_t& calls, uint32_t limit) : calls_(calls) {
    if (calls_ >= limit) fail_limit("the chat template calls macros too deeply");
    ++calls_;
  }
  CallCount(const CallCount&) = delete;
  CallCount& operator=(const CallCount&) = delete;
  ~CallCount() { --calls_; }

 private:
  uint32_t& calls_;
};

bool is_hashable(const Value& key) {
  if (key.is(Kind::kList) || key.is(Kind::kDict)) return false;
  return !key.is(Kind::kTuple) || std::all_of(key.begin(), key.end(), is_hashable);
}

Value loop_cycle(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("no items for cycling given");
  return arguments.positional[self.as_loop()->index0 % arguments.positional.size()];
}

Value loop_changed(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  LoopObject& loop = *self.as_loop();
  const auto same = [&interpreter](const Value& a, const Value& b) {
    return equal(interpreter.heap(), a, b);
  };
  const auto& now = arguments.positional;
  const auto& before = loop.changed_value;
  if (loop.has_changed_value &&
      std::equal(now.begin(), now.end(), before.begin(), before.end(), same)) {
    return Value::boolean(false);
  }
  loop.has_changed_value = true;
  loop.changed_value = now;
  return Value::boolean(true);
}

// One character of a string, one item of a list, tuple or range; false when out of range.
bool item_at(Heap& heap, const Value& object, Int index, Value& out) {
  Int size = 0;
  if (object.is_string()) {
    size = static_cast<Int>(count_characters(heap, object.view()));
  } else if (object.is(Kind::kRange)) {
    size = static_cast<Int>(object.as_range()->length());
  } else {
    size = static_cast<Int>(object.size());
  }
  if (index < 0) index += size;
  if (index < 0 || index >= size) return false;
  const auto at = static_cast<size_t>(index);
  if (object.is_string()) {
    out = Value::string(characters(heap, object.as_str(), at, 1), object.is_markup());
  } else if (object.is(Kind::kRange)) {
    const RangeObject& range = *object.as_range();
    out = Value::integer(range.start + index * range.step);
  } else {
    out = object.begin()[at];
  }
  return true;
}

}  // namespace

LoopObject* Value::as_loop() const { return static_cast<LoopObject*>(data_.object); }
MacroObject* Value::as_macro() const { return static_cast<MacroObject*>(data_.object); }

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kFunction: {
      const FunctionObject& function = *callee.as_function();
      return function.function(*this, function.self, arguments);
    }
    case Kind::kMacro:
      return call_macro(*callee.as_macro(), arguments);
    case Kind::kLoop:
      return call_loop(*callee.as_loop(), arguments);
    case Kind::kUndefined:
      fail(callee.view().empty() ? "undefined value is called" : std::string(callee.view()));
    default:
      fail("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

Value Interpreter::call_macro(const MacroObject& macro, const Arguments& arguments) {
  const CallCount count(calls_, max_depth_);
  const uint32_t line = line_;
  Scope* scope = heap_.make<Scope>();
  scope->parent = macro.closure;
  bind_macro_arguments(macro, arguments, scope);
  StringBuilder text(heap_);
  StringBuilder* outer = std::exchange(out_, &text);
  exec_body(macro.statement->body, scope);
  out_ = outer;
  line_ = line;
  return Value::string(text.finish());
}

void Interpreter::bind_macro_arguments(const MacroObject& macro, const Arguments& arguments,
                                       Scope* scope) {
  const Signature& signature = macro.statement->signature;
  const std::string name = "macro '" + macro.statement->spelled + "'";
  const size_t count = signature.parameters.size();
  const size_t first_default = count - signature.defaults.size();
  std::vector<bool> used(arguments.named.size(), false);
  const auto take_named = [&](std::string_view wanted) -> const Value* {
    for (size_t i = 0; i < arguments.named.size(); ++i) {
      if (used[i] || arguments.named[i].first.view() != wanted) continue;
      used[i] = true;
      return &arguments.named[i].second;
    }
    return nullptr;
  };
  heap_.charge_memory((count + 3) * sizeof(std::pair<NameId, Value>));
  for (size_t i = 0; i < count; ++i) {
    const Value* given = i < arguments.positional.size() ? &arguments.positional[i]
                                                         : take_named(signature.names[i].view());
    Value value;
    if (given != nullptr) {
      value = *given;
    } else if (i >= first_default) {
      value = eval(*signature.defaults[i - first_default], scope);
    } else {
      value =
          undefined("parameter '" + std::string(signature.names[i].view()) + "' was not provided");
    }
    scope->values.emplace_back(signature.parameters[i], value);
  }
  if (signature.uses_caller) {
    const Value* caller = take_named("caller");
    scope->values.emplace_back(kNameCaller,
                               caller != nullptr ? *caller : undefined("No caller defined"));
  }
  DictObject* rest = heap_.make<DictObject>();
  for (size_t i = 0; i < arguments.named.size(); ++i) {
    if (used[i]) continue;
    const auto& [key, value] = arguments.named[i];
    if (!signature.uses_kwargs) {
      fail(name + " takes no keyword argument '" + std::string(key.view()) + "'");
    }
    dict_set(heap_, *rest, Value::string(key), value);
  }
  if (signature.uses_kwargs) scope->values.emplace_back(kNameKwargs, Value::dict(rest));
  if (arguments.positional.size() > count && !signature.uses_varargs) {
    fail(name + " takes not more than " + std::to_string(count) + " argument(s)");
  }
  if (!signature.uses_varargs) return;
  std::vector<Value> extra;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    extra.push_back(arguments.positional[i]);
  }
  scope->values.emplace_back(kNameVarargs, Value::tuple(make_list(heap_, std::move(extra))));
}

Value Interpreter::call_loop(const LoopObject& loop, const Arguments& arguments) {
  if (!loop.statement->recursive) {
    fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    fail("loop takes exactly one argument");
  }
  const CallCount count(calls_, max_depth_);
  StringBuilder text(heap_);
  StringBuilder* outer = std::exchange(out_, &text);
  run_loop(*loop.statement, arguments.positional[0], loop.scope, loop.depth0 + 1);
  out_ = outer;
  return Value::string(text.finish());
}

Value Interpreter::loop_attribute(LoopObject& loop, std::string_view name, bool& found) {
  const size_t length = loop.items.size();
  const size_t index = loop.index0;
  found = true;
  if (name == "index") return Value::count(index + 1);
  if (name == "index0") return Value::count(index);
  if (name == "revindex") return Value::count(length - index);
  if (name == "revindex0") return Value::count(length - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == length);
  if (name == "length") return Value::count(length);
  if (name == "depth") return Value::count(loop.depth0 + 1);
  if (name == "depth0") return Value::count(loop.depth0);
  if (name == "previtem") {
    return index > 0 ? loop.items.begin()[index - 1] : undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < length ? loop.items.begin()[index + 1] : undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") {
    FunctionObject* method = heap_.make<FunctionObject>();
    method->name = name == "cycle" ? "cycle" : "changed";
    method->function = name == "cycle" ? loop_cycle : loop_changed;
    method->self = Value::object(Kind::kLoop, &loop);
    return Value::object(Kind::kFunction, method);
  }
  found = false;
  return Value();
}

bool Interpreter::special_attribute(const Value& object, std::string_view name, Value& out) {
  bool found = false;
  if (object.is(Kind::kNamespace)) {
    const Value* value = dict_find(*object.as_namespace()->attributes, name);
    if (value != nullptr) out = *value;
    return value != nullptr;
  }
  if (object.is(Kind::kLoop)) {
    out = loop_attribute(*object.as_loop(), name, found);
  } else if (object.is(Kind::kMacro) && name == "name") {
    out = make_string(heap_, object.as_macro()->statement->spelled, true);
    found = true;
  } else {
    found = find_attribute(heap_, object, name, out);
  }
  return found;
}

Value Interpreter::get_attribute(const Value& object, const Value& name) {
  if (object.is_undefined()) fail(std::string(object.view()));
  Value out;
  if (special_attribute(object, name.view(), out)) return out;
  if (object.is(Kind::kDict)) {
    const Value* value = dict_find(*object.as_dict(), name.view());
    if (value != nullptr) return *value;
  }
  return undefined("'" + std::string(object_repr(object)) + " object' has no attribute '" +
                   std::string(name.view()) + "'");
}

Value Interpreter::get_item(const Value& object, const Value& key) {
  Value out;
  switch (object.kind()) {
    case Kind::kUndefined:
      fail(std::string(object.view()));
    case Kind::kDict:
      if (!is_hashable(key)) break;
      if (const Value* value = dict_find(heap_, *object.as_dict(), key)) return *value;
      break;
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      if (key.is_integral() && item_at(heap_, object, key.as_int(), out)) return out;
      break;
    default:
      break;
  }
  if (key.is_string() && special_attribute(object, key.view(), out)) return out;
  return undefined(std::string(object_repr(object)) + " object has no such element");
}

}  // namespace bulkhead::chat::jinja
