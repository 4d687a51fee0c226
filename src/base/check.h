// Assertions that stay on in release builds, for our own mistakes only.
//
// A failed check prints the place and the reason and aborts. Never use one on anything a client, a
// file or a peer can influence: that is a base::Result.
//
// Threads: any; the process ends.
#pragma once

#include <string_view>

namespace bulkhead::base {

[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               std::string_view reason);

}  // namespace bulkhead::base

#define BH_CHECK(condition, reason)                                             \
  do {                                                                          \
    if (!(condition)) [[unlikely]] {                                            \
      ::bulkhead::base::check_failed(__FILE__, __LINE__, #condition, (reason)); \
    }                                                                           \
  } while (false)
