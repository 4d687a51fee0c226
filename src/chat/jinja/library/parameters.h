// Binds call arguments to parameter names, as a Python signature does.
//
// Threads: lives for one call. Invariant: every argument lands in exactly one parameter, or the
// call fails.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

class Parameters {
 public:
  // The first `required` parameters must be given.
  Parameters(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required = 0);

  bool has(size_t i) const { return values_[i] != nullptr; }
  const Value& operator[](size_t i) const { return *values_[i]; }
  Value get(size_t i, const Value& otherwise) const { return has(i) ? *values_[i] : otherwise; }
  bool flag(size_t i, bool otherwise, Heap& heap) const {
    return has(i) ? truthy(heap, *values_[i]) : otherwise;
  }
  // A whole number; fails for anything else that is given.
  Int integer(size_t i, Int otherwise) const;
  // A string that must be given.
  Str string(size_t i) const;

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

}  // namespace bulkhead::chat::jinja
