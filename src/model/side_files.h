// The JSON files that stand beside the weights: config.json, generation_config.json,
// tokenizer_config.json.
//
// Threads: pure functions. Invariant: token ids that come out are inside the vocabulary, sampling
// values inside their ranges.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/checkpoint.h"

namespace bulkhead::model {

// config.json: its family's ModelConfig, and the end-of-sequence ids it names (added to
// `generation`). What it says on quantisation is checked and left out (formats/quant_config.h).
base::Result<ModelConfig> parse_config(std::string_view text, GenerationDefaults& generation);

// generation_config.json: fills `generation` (end ids are added to those there).
base::Status parse_generation_config(std::string_view text, int32_t vocabulary,
                                     GenerationDefaults& generation);

// tokenizer_config.json: special-token spellings, add_bos_token, chat template.
base::Status parse_tokenizer_config(std::string_view text, TextSource& out);

// Adds `id` to the ascending list, once.
void add_eos(int32_t id, GenerationDefaults& generation);

}  // namespace bulkhead::model
