// A model's configuration on its own: what config.json says, without weights beside it.
//
// Threads: pure functions but for reading the one file. Invariant: as parse_config()'s
// (side_files.h); a file that is no configuration is an error that names file and key.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "model/formats/quant_config.h"
#include "model/model_config.h"

namespace bulkhead::model {

struct ConfigFile {
  std::string name;  // the folder's where the file is called config.json, else the file's
  ModelConfig config;
  formats::QuantMethod quantised = formats::QuantMethod::kNone;  // as its weights are published
};

// `path` is the file or the directory that holds config.json.
base::Result<ConfigFile> read_config_file(const std::filesystem::path& path);

}  // namespace bulkhead::model
