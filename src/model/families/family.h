// A model family: how one kind of checkpoint's configuration becomes a ModelConfig.
//
// Threads: pure functions.
// Invariants: a ModelConfig that a family returns keeps model_config.h's invariants; a setting that
// changes the numbers and that Bulkhead does not compute is an error, never a default.
//
// A further dense family is one file with its two mappings, one declaration here and one entry in
// families() (registry.cc).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/fields.h"
#include "model/gguf.h"
#include "model/model_config.h"

namespace bulkhead::model {

struct Family {
  std::string_view name;  // config.json's model_type and GGUF's general.architecture
  base::Result<ModelConfig> (*from_json)(const JsonFields& config);
  base::Result<ModelConfig> (*from_gguf)(const GgufFile& file);  // null: not read from GGUF
};

extern const Family kLlama;
extern const Family kQwen2;
extern const Family kQwen3;
extern const Family kQwen3Moe;
extern const Family kGlm4Moe;
extern const Family kDeepseekV3;
extern const Family kKimiK2;
extern const Family kKimiK25;
extern const Family kDeepseekV32;
extern const Family kGlmMoeDsa;

std::span<const Family* const> families();

// The family named so. kUnsupported lists the names there are.
base::Result<const Family*> find_family(std::string_view where, std::string_view name);

}  // namespace bulkhead::model
