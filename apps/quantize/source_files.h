// What goes beside the weights of a quantised checkpoint: configuration, tokenizer, templates.
//
// Threads: pure functions over files. Invariant: weights, and the model card that describes the
// unquantised model, are never among them.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "model/checkpoint.h"
#include "model/model_config.h"
#include "model/write/quantise.h"

namespace bulkhead::apps {

// config.json and the files to be carried over; of a GGUF file, made from its metadata.
base::Result<model::write::SideFiles> read_side_files(const model::Checkpoint& checkpoint,
                                                      const std::filesystem::path& path);

// The configuration of a path that has no weights: a config.json, or a directory with one and
// nothing else to read. Nothing where there are weights.
base::Result<std::optional<model::ModelConfig>> bare_config(const std::filesystem::path& path);

}  // namespace bulkhead::apps
