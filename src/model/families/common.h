// What all dense families read from a configuration in the same way.
//
// Threads: pure functions. Invariant: what is returned keeps dense_config.h's invariants; the
// biases, norms and row order that tell families apart are left at their defaults.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "model/dense_config.h"
#include "model/fields.h"
#include "model/gguf.h"

namespace bulkhead::model {

struct JsonDefaults {
  int32_t head_dim = 0;  // when head_dim is absent; 0: hidden_size / num_attention_heads
  // When partial_rotary_factor is absent; 1: the family turns whole heads and nothing else.
  double rotary_part = 1.0;
};

// Dimensions, norms, RoPE and tie flag from config.json. Unknown rope types, activations other than
// SiLU, partial rotation, sliding windows in use and quantised checkpoints are errors.
base::Result<DenseConfig> read_json_config(std::string_view family, const JsonFields& config,
                                           JsonDefaults defaults);

// Experts, their width and how many a token uses; every layer is sparse. What differs between
// routers is left at its default. The number of experts is under the first of `names` that is
// there.
base::Status read_json_moe(const JsonFields& config, std::span<const std::string_view> names,
                           DenseConfig& out);

// The same from "<architecture>.*". A key there that is not known is an error: nobody can tell
// whether it changes the numbers.
base::Result<DenseConfig> read_gguf_config(std::string_view family, const GgufFile& file);

}  // namespace bulkhead::model
