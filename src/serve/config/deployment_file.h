// Reads a deployment file: TOML whose keys are the names of option_table.h.
//
// Threads: pure functions. Invariants: every key is known, given once and of the type its option
// has, or the file is refused with the line, the key and the nearest known name; nothing in a file
// costs more memory than a few times its size, which is limited.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bulkhead::serve {

struct FileEntry {
  std::string name;                 // of the option
  std::vector<std::string> values;  // one, but for lists
  int line = 0;                     // of the file, from 1
};

// `file_name` stands in front of every error: "deployment.toml:7: ...".
base::Result<std::vector<FileEntry>> parse_deployment(std::string_view text,
                                                      const std::string& file_name);

base::Result<std::vector<FileEntry>> read_deployment_file(const std::string& path);

}  // namespace bulkhead::serve
