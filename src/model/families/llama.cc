// Llama 2 and 3, SmolLM2 and everything else that declares itself "llama".

#include "model/families/common.h"
#include "model/families/family.h"

namespace bulkhead::model {
namespace {

base::Result<ModelConfig> from_json(const JsonFields& config) {
  BH_ASSIGN(ModelConfig out, read_json_config("llama", config, {}));
  if (config.has("sliding_window")) {
    return config.unsupported("sliding_window", "only null is supported");
  }
  BH_ASSIGN(out.qkv_bias, config.flag_or("attention_bias", false));
  out.o_bias = out.qkv_bias;
  BH_ASSIGN(out.mlp_bias, config.flag_or("mlp_bias", false));
  return out;
}

base::Result<ModelConfig> from_gguf(const GgufFile& file) {
  BH_ASSIGN(ModelConfig out, read_gguf_config("llama", file));
  // GGUF has no key for biases; whoever has them has them in every layer.
  out.qkv_bias = file.has_tensor("blk.0.attn_q.bias");
  out.o_bias = file.has_tensor("blk.0.attn_output.bias");
  out.mlp_bias = file.has_tensor("blk.0.ffn_gate.bias");
  out.qk_rows_interleaved = true;
  return out;
}

}  // namespace

const Family kLlama = {"llama", from_json, from_gguf};

}  // namespace bulkhead::model
