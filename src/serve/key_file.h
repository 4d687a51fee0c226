// The keys a server is given: on its command line, and in a file that can change while it runs.
//
// Threads: pure functions. Invariants: what comes back can be sent as a bearer token and is no
// longer than kKeyBytesMax; an error never holds a key, only its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/options.h"

namespace bulkhead::serve {

inline constexpr size_t kKeyBytesMax = 512;
inline constexpr size_t kKeysMax = 4096;

struct KeyFile {
  std::vector<std::string> keys;  // at least one
  bool open_to_others = false;    // every user of the machine may read it
  bool open_to_group = false;
};

// One key a line; empty lines and lines that begin with # do not count, nor does white space around
// a key. Errors name `flag`, the option that named the file.
base::Result<KeyFile> read_key_file(const std::string& path, const std::string& flag);

struct Keys {
  std::vector<std::string> api;  // of the command line and of the file; empty: none
  std::string admin;             // empty: none
  bool file_open_to_others = false;
};
// Checks that the admin key is nobody else's.
base::Result<Keys> collect_keys(const ServeOptions& options);

}  // namespace bulkhead::serve
