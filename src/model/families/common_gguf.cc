#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/families/common.h"

namespace bulkhead::model {
namespace {

constexpr std::array<std::string_view, 20> kKnownKeys = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "expert_used_count",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "vocab_size",
};
// Says how the original weights were laid out; the rows in the file are what counts.
constexpr std::string_view kLayoutNote = "tensor_data_layout";

// Metadata under "<architecture>.", with keys spelled without it.
class ArchitectureFields final : public Fields {
 public:
  ArchitectureFields(const GgufMetadata& metadata, std::string_view architecture)
      : Fields(fmt::format("{}: {}", metadata.where(), architecture)),
        metadata_(metadata),
        prefix_(fmt::format("{}.", architecture)) {}

  FieldValue find(std::string_view key) const override {
    return metadata_.find(fmt::format("{}{}", prefix_, key));
  }

  base::Status refuse_unknown() const {
    for (const auto& [key, value] : metadata_.values()) {
      if (!std::string_view(key).starts_with(prefix_)) continue;
      const std::string_view rest = std::string_view(key).substr(prefix_.size());
      if (rest == kLayoutNote) continue;
      if (!std::binary_search(kKnownKeys.begin(), kKnownKeys.end(), rest)) {
        return unsupported(rest, "unknown key; it may change what the model computes");
      }
    }
    for (const std::string_view key : {"expert_count", "expert_used_count"}) {
      const FieldValue value = find(key);
      const auto* count = std::get_if<int64_t>(&value);
      if (has(key) && (count == nullptr || *count != 0)) {
        return unsupported(key, "mixture-of-experts models are not supported");
      }
    }
    return {};
  }

 private:
  const GgufMetadata& metadata_;
  const std::string prefix_;
};

base::Status read_rope(const ArchitectureFields& fields, const ModelConfig& config,
                       RopeConfig& rope) {
  BH_ASSIGN(const int32_t rotated,
            fields.dimension_or("rope.dimension_count", kHeadDimMax, config.head_dim));
  if (rotated != config.head_dim) {
    return fields.unsupported("rope.dimension_count",
                              fmt::format("{} of {} dimensions rotated; only all are supported",
                                          rotated, config.head_dim));
  }
  BH_ASSIGN(rope.theta, fields.number_or("rope.freq_base", {1.001, 1e12}, 10000.0));
  BH_ASSIGN(const std::string type, fields.text_or("rope.scaling.type", "none"));
  if (type == "none") return {};
  if (type != "linear" && type != "yarn") {
    return fields.unsupported(
        "rope.scaling.type",
        fmt::format("\"{}\" is not supported; none, linear and yarn are", type.substr(0, 64)));
  }
  BH_ASSIGN(rope.factor, fields.number("rope.scaling.factor", {1e-3, 1e6}));
  rope.scaling = type == "linear" ? RopeScaling::kLinear : RopeScaling::kYarn;
  if (rope.scaling == RopeScaling::kLinear) return {};
  BH_ASSIGN(rope.original_context, fields.dimension_or("rope.scaling.original_context_length",
                                                       kContextMax, config.context));
  BH_ASSIGN(rope.beta_fast, fields.number_or("rope.scaling.yarn_beta_fast", {1e-6, 1e6}, 32.0));
  BH_ASSIGN(rope.beta_slow, fields.number_or("rope.scaling.yarn_beta_slow", {1e-6, 1e6}, 1.0));
  rope.attention_factor = rope.factor <= 1.0 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0;
  return {};
}

base::Status read_heads(const ArchitectureFields& fields, ModelConfig& out) {
  BH_ASSIGN(out.heads, fields.dimension("attention.head_count", kHeadsMax));
  BH_ASSIGN(out.kv_heads, fields.dimension_or("attention.head_count_kv", kHeadsMax, out.heads));
  if (out.heads % out.kv_heads != 0) {
    return fields.refuse(
        "attention.head_count_kv",
        fmt::format("{} does not divide the {} attention heads", out.kv_heads, out.heads));
  }
  if (!fields.has("attention.key_length") && out.hidden % out.heads != 0) {
    return fields.refuse("attention.key_length",
                         "missing, and attention.head_count does not divide embedding_length");
  }
  BH_ASSIGN(out.head_dim,
            fields.dimension_or("attention.key_length", kHeadDimMax, out.hidden / out.heads));
  if (out.head_dim % 2 != 0 || out.head_dim > kHeadDimMax) {
    return fields.refuse("attention.key_length", fmt::format("{} is not an even number up to {}",
                                                             out.head_dim, kHeadDimMax));
  }
  out.rotary_dim = out.head_dim;
  BH_ASSIGN(const int32_t value_dim,
            fields.dimension_or("attention.value_length", kHeadDimMax, out.head_dim));
  if (value_dim == out.head_dim) return {};
  return fields.unsupported("attention.value_length", "must equal attention.key_length");
}

}  // namespace

base::Result<ModelConfig> read_gguf_config(std::string_view family, const GgufFile& file) {
  const ArchitectureFields fields(file.metadata, family);
  BH_TRY(fields.refuse_unknown());
  ModelConfig out;
  out.family = family;
  BH_ASSIGN(out.layers, fields.dimension("block_count", kLayersMax));
  BH_ASSIGN(out.hidden, fields.dimension("embedding_length", kWidthMax));
  BH_ASSIGN(out.intermediate, fields.dimension("feed_forward_length", kWidthMax));
  BH_ASSIGN(out.context, fields.dimension("context_length", kContextMax));
  BH_TRY(read_heads(fields, out));
  const std::vector<std::string>* tokens = file.metadata.strings("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->empty() || tokens->size() > kVocabularyMax) {
    return file.metadata.refuse("tokenizer.ggml.tokens", "missing or empty");
  }
  BH_ASSIGN(out.vocabulary, fields.dimension_or("vocab_size", kVocabularyMax,
                                                static_cast<int32_t>(tokens->size())));
  BH_ASSIGN(const double eps, fields.number("attention.layer_norm_rms_epsilon", {0.0, 1.0}));
  out.rms_eps = static_cast<float>(eps);
  BH_TRY(read_rope(fields, out, out.rope));
  out.rope.factors_in_file = file.has_tensor("rope_freqs.weight");
  out.tie = TieRule::kByPresence;
  return out;
}

}  // namespace bulkhead::model
