// The config.json that says what a GGUF file's metadata says.
//
// Threads: pure functions. Invariant: parse_config() (side_files.h) of the text gives the
// checkpoint's own configuration; what config.json cannot say is an error by name.
#pragma once

#include <string>

#include "base/result.h"
#include "model/checkpoint.h"

namespace bulkhead::model::write {

base::Result<std::string> config_of_gguf(const Checkpoint& checkpoint);

}  // namespace bulkhead::model::write
