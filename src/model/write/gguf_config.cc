#include "model/write/gguf_config.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>

#include "model/write/json_text.h"

namespace bulkhead::model::write {
namespace {

namespace json = boost::json;

struct Architecture {
  std::string_view family;
  std::string_view name;
};

constexpr std::array kArchitectures = {Architecture{"llama", "LlamaForCausalLM"},
                                       Architecture{"qwen2", "Qwen2ForCausalLM"},
                                       Architecture{"qwen3", "Qwen3ForCausalLM"}};

base::Result<std::string_view> architecture_of(const Checkpoint& checkpoint) {
  for (const Architecture& one : kArchitectures) {
    if (one.family == checkpoint.config().family) return one.name;
  }
  return base::unsupported(
      fmt::format("{}: a config.json for {} cannot be made of GGUF metadata; quantise the "
                  "safetensors checkpoint it was made from",
                  checkpoint.name(), checkpoint.config().family));
}

base::Status check_expressible(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const auto refuse = [&](std::string_view what) {
    return base::unsupported(
        fmt::format("{}: {}, which config.json cannot say; quantise the safetensors checkpoint it "
                    "was made from",
                    checkpoint.name(), what));
  };
  if (config.rope.factors_in_file) return refuse("RoPE has a divisor for each frequency");
  const bool own_rule = config.family == "qwen2";  // q, k and v have biases, o has none
  if (!own_rule && config.qkv_bias != config.o_bias) {
    return refuse("only some of q, k, v and o have biases");
  }
  return {};
}

json::value rope_scaling(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  if (rope.scaling == RopeScaling::kNone) return nullptr;
  json::object out = {{"rope_type", to_string(rope.scaling)}, {"factor", rope.factor}};
  if (rope.scaling == RopeScaling::kYarn) {
    out["original_max_position_embeddings"] = rope.original_context;
    out["beta_fast"] = rope.beta_fast;
    out["beta_slow"] = rope.beta_slow;
    out["attention_factor"] = rope.attention_factor;
  }
  return out;
}

json::value end_ids(const GenerationDefaults& generation) {
  if (generation.eos_ids.size() == 1) return generation.eos_ids.front();
  return json::array(generation.eos_ids.begin(), generation.eos_ids.end());
}

}  // namespace

base::Result<std::string> config_of_gguf(const Checkpoint& checkpoint) {
  BH_ASSIGN(const std::string_view architecture, architecture_of(checkpoint));
  BH_TRY(check_expressible(checkpoint));
  const ModelConfig& config = checkpoint.config();
  // A float's own digits: 1e-5, not 9.99999974737875e-06.
  const double eps = std::stod(fmt::format("{}", config.rms_eps));
  json::object out = {{"architectures", json::array{architecture}},
                      {"model_type", config.family},
                      {"attention_bias", config.o_bias},
                      {"dtype", "bfloat16"},
                      {"head_dim", config.head_dim},
                      {"hidden_act", "silu"},
                      {"hidden_size", config.hidden},
                      {"intermediate_size", config.intermediate},
                      {"max_position_embeddings", config.context},
                      {"mlp_bias", config.mlp_bias},
                      {"num_attention_heads", config.heads},
                      {"num_hidden_layers", config.layers},
                      {"num_key_value_heads", config.kv_heads},
                      {"rms_norm_eps", eps},
                      {"rope_scaling", rope_scaling(config)},
                      {"rope_theta", config.rope.theta},
                      {"tie_word_embeddings", checkpoint.describe().tied},
                      {"vocab_size", config.vocabulary}};
  const auto& tokens = checkpoint.text().gguf;
  if (tokens && tokens->bos) out["bos_token_id"] = *tokens->bos;
  if (!checkpoint.generation().eos_ids.empty())
    out["eos_token_id"] = end_ids(checkpoint.generation());
  return json_text(out);
}

}  // namespace bulkhead::model::write
