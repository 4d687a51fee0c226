#include "chat/jinja/library/parameters.h"

#include <string>

namespace bulkhead::chat::jinja {

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<std::string_view> names, size_t required)
    : function_(function), values_(names.size(), nullptr) {
  const std::string who(function);
  if (arguments.positional.size() > names.size()) fail(who + " got too many arguments");
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t at = 0;
    for (const std::string_view candidate : names) {
      if (candidate == name.view()) break;
      ++at;
    }
    if (at == names.size()) {
      fail(who + " got an unexpected keyword argument '" + std::string(name.view()) + "'");
    }
    if (values_[at] != nullptr) {
      fail(who + " got multiple values for argument '" + std::string(name.view()) + "'");
    }
    values_[at] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      fail(who + " is missing the argument '" + std::string(names.begin()[i]) + "'");
    }
  }
}

Int Parameters::integer(size_t i, Int otherwise) const {
  if (!has(i)) return otherwise;
  const Value& value = *values_[i];
  if (!value.is_integral()) {
    fail(std::string(function_) + " needs an integer, not " + std::string(type_name(value)));
  }
  return value.as_int();
}

Str Parameters::string(size_t i) const {
  const Value& value = *values_[i];
  if (!value.is_string()) {
    fail(std::string(function_) + " needs a string, not " + std::string(type_name(value)));
  }
  return value.as_str();
}

}  // namespace bulkhead::chat::jinja
