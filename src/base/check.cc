#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace bulkhead::base {

void check_failed(const char* file, int line, const char* expression, std::string_view reason) {
  std::fprintf(stderr, "bulkhead: check failed at %s:%d: %s (%.*s)\n", file, line, expression,
               static_cast<int>(reason.size()), reason.data());
  std::abort();
}

}  // namespace bulkhead::base
