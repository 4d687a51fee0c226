// The functions every template sees.
#include <locale.h>
#include <time.h>

#include <array>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/library/parameters.h"

namespace bulkhead::chat::jinja {
namespace {

constexpr size_t kMaxRange = 100'000;  // jinja2's sandbox

Value make_range(Interpreter& in, const Value&, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("range() takes no keyword arguments");
  const Parameters given("range", arguments, {"start", "stop", "step"}, 1);
  RangeObject* range = in.heap().make<RangeObject>();
  const bool one = !given.has(1);
  range->start = one ? 0 : given.integer(0, 0);
  range->stop = given.integer(one ? 0 : 1, 0);
  range->step = given.integer(2, 1);
  if (range->step == 0) fail("range() arg 3 must not be zero");
  constexpr Int kFar = Int{1} << 100;
  for (const Int bound : {range->start, range->stop, range->step}) {
    if (bound > kFar || bound < -kFar) fail("range() argument is too large");
  }
  if (range->length() > kMaxRange) {
    fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  return Value::object(Kind::kRange, range);
}

DictObject* dict_from(Interpreter& in, const Arguments& arguments) {
  Heap& heap = in.heap();
  if (arguments.positional.size() > 1) fail("dict expected at most 1 argument");
  DictObject* dict = heap.make<DictObject>();
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.as_dict()->entries) dict_set(heap, *dict, key, value);
    } else {
      for (const Value& pair : to_list(heap, source)) {
        const Value both = to_list(heap, pair);
        if (both.size() != 2) fail("dictionary update sequence element has a length other than 2");
        dict_set(heap, *dict, both.begin()[0], both.begin()[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    dict_set(heap, *dict, Value::string(name), value);
  }
  return dict;
}

Value make_dict(Interpreter& in, const Value&, const Arguments& arguments) {
  return Value::dict(dict_from(in, arguments));
}

Value make_namespace(Interpreter& in, const Value&, const Arguments& arguments) {
  NamespaceObject* space = in.heap().make<NamespaceObject>();
  space->attributes = dict_from(in, arguments);
  return Value::object(Kind::kNamespace, space);
}

Value raise_exception(Interpreter& in, const Value&, const Arguments& arguments) {
  const Parameters given("raise_exception", arguments, {"message"}, 1);
  throw RenderError{base::ErrorCode::kInvalidArgument,
                    std::string(to_str(in.heap(), given[0]).view()), in.line()};
}

// One conversion through the C library, in the C locale whatever the process has set.
std::string convert(const char* format, const tm& time) {
  std::array<char, 128> text;
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  const size_t size = strftime_l(text.data(), text.size(), format, &time, c_locale);
  return std::string(text.data(), size);
}

std::string format_time(std::string_view format, const tm& time) {
  constexpr std::string_view kConversions = "aAbBcCdDeFgGhHIjklmMnprRSstTuUVwWxXyY%";
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    size_t end = i + 1;
    while (end < format.size() &&
           std::string_view("-_0^#").find(format[end]) != std::string_view::npos) {
      ++end;
    }
    if (end >= format.size()) {
      out += format.substr(i);
      break;
    }
    const bool known = kConversions.find(format[end]) != std::string_view::npos && end - i <= 4;
    const bool zone = format[end] == 'Z' || format[end] == 'z';  // a naive time has none
    const std::string one(format.substr(i, end + 1 - i));
    if (known)
      out += convert(one.c_str(), time);
    else if (!zone)
      out += one;
    i = end;
  }
  return out;
}

Value strftime_now(Interpreter& in, const Value&, const Arguments& arguments) {
  const Parameters given("strftime_now", arguments, {"format"}, 1);
  const auto now = static_cast<time_t>(in.now_unix_seconds());
  tm time = {};
  if (gmtime_r(&now, &time) == nullptr) fail("the current time is out of range");
  in.heap().charge_memory(given.string(0).size * 64);
  return make_string(in.heap(), format_time(given.string(0).view(), time));
}

}  // namespace

const std::vector<std::pair<std::string_view, NativeFunction>>& global_functions() {
  static const std::vector<std::pair<std::string_view, NativeFunction>> kFunctions = {
      {"range", make_range},          {"dict", make_dict},
      {"namespace", make_namespace},  {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  return kFunctions;
}

}  // namespace bulkhead::chat::jinja
