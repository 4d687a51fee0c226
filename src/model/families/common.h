// What all dense families read from a configuration in the same way.
//
// Threads: pure functions. Invariant: what is returned keeps model_config.h's invariants; the
// biases, norms and row order that tell families apart are left at their defaults.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "model/fields.h"
#include "model/gguf.h"
#include "model/model_config.h"

namespace bulkhead::model {

struct JsonDefaults {
  int32_t head_dim = 0;  // when head_dim is absent; 0: hidden_size / num_attention_heads
  // When partial_rotary_factor is absent; 1: the family turns whole heads and nothing else.
  double rotary_part = 1.0;
};

// Dimensions but for those of heads, norms, RoPE and tie flag from config.json. Unknown rope types,
// activations other than SiLU and sliding windows in use are errors.
base::Result<ModelConfig> read_json_base(std::string_view family, const JsonFields& config);

// The same with the heads of grouped-query attention; partial rotation is an error unless the
// family has it.
base::Result<ModelConfig> read_json_config(std::string_view family, const JsonFields& config,
                                           JsonDefaults defaults);

// Experts, their width and how many a token uses; every layer is sparse. What differs between
// routers is left at its default. The number of experts is under the first of `names` that is
// there.
base::Status read_json_moe(const JsonFields& config, std::span<const std::string_view> names,
                           ModelConfig& out);

// The router of DeepSeek-V3 and what came after it: sigmoid with a bias for choosing, groups,
// weights that sum to one and are scaled, a shared expert, the first layers dense, layers for
// next-token prediction behind the model's own. With `by_type` mlp_layer_types wins over
// first_k_dense_replace.
base::Status read_json_sigmoid_moe(const JsonFields& config, int32_t dense_default, bool by_type,
                                   ModelConfig& out);

// A DeepSeek-V3 or one of its kin: latent attention and, but for the first layers, experts.
struct LatentDefaults {
  bool may_pair_halves = false;  // rope_interleave may be false
  bool mlp_layer_types = false;  // of read_json_sigmoid_moe
};
base::Result<ModelConfig> read_json_latent(std::string_view family, const JsonFields& config,
                                           LatentDefaults defaults);

// The indexer of sparse attention, one in every layer.
base::Status read_json_indexer(const JsonFields& config, ModelConfig& out);

// The whole configuration from "<architecture>.*". A key there that is not known is an error:
// nobody can tell whether it changes the numbers.
base::Result<ModelConfig> read_gguf_config(std::string_view family, const GgufFile& file);

}  // namespace bulkhead::model
