#include <fmt/format.h>

#include <cmath>

#include "model/families/common.h"

namespace bulkhead::model {
namespace {

constexpr NumberRange kThetaRange = {1.001, 1e12};
constexpr NumberRange kFactorRange = {1e-3, 1e6};
constexpr NumberRange kPositiveRange = {1e-6, 1e6};

base::Status read_llama3(const JsonFields& fields, RopeConfig& rope) {
  rope.scaling = RopeScaling::kLlama3;
  BH_ASSIGN(rope.factor, fields.number("factor", kFactorRange));
  BH_ASSIGN(rope.low_freq_factor, fields.number("low_freq_factor", kPositiveRange));
  BH_ASSIGN(rope.high_freq_factor, fields.number("high_freq_factor", kPositiveRange));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return fields.refuse("high_freq_factor", "must be above low_freq_factor");
  }
  BH_ASSIGN(rope.original_context,
            fields.dimension("original_max_position_embeddings", kContextMax));
  return {};
}

// 0.1 * m * ln(factor) + 1, the growth of attention logits that YaRN compensates.
double yarn_gain(double factor, double m) {
  return factor <= 1.0 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
}

base::Status read_yarn(const JsonFields& fields, int32_t context, RopeConfig& rope) {
  rope.scaling = RopeScaling::kYarn;
  BH_ASSIGN(rope.original_context,
            fields.dimension_or("original_max_position_embeddings", kContextMax, context));
  const double ratio = static_cast<double>(context) / static_cast<double>(rope.original_context);
  BH_ASSIGN(rope.factor, fields.number_or("factor", kFactorRange, ratio));
  BH_ASSIGN(rope.beta_fast, fields.number_or("beta_fast", kPositiveRange, 32.0));
  BH_ASSIGN(rope.beta_slow, fields.number_or("beta_slow", kPositiveRange, 1.0));
  BH_ASSIGN(rope.truncate, fields.flag_or("truncate", true));
  BH_ASSIGN(const double mscale, fields.number_or("mscale", {0.0, 1e3}, 0.0));
  BH_ASSIGN(const double all_dim, fields.number_or("mscale_all_dim", {0.0, 1e3}, 0.0));
  if (all_dim != 0.0) {
    const double gain = yarn_gain(rope.factor, all_dim);
    rope.softmax_gain = gain * gain;
  }
  const double derived = mscale != 0.0 && all_dim != 0.0
                             ? yarn_gain(rope.factor, mscale) / yarn_gain(rope.factor, all_dim)
                             : yarn_gain(rope.factor, 1.0);
  BH_ASSIGN(rope.attention_factor, fields.number_or("attention_factor", kPositiveRange, derived));
  return {};
}

// The scaling object of either spelling; `type` is under "rope_type" or, formerly, "type".
base::Status read_scaling(const JsonFields& fields, int32_t context, RopeConfig& rope) {
  if (fields.has("full_attention") || fields.has("sliding_attention")) {
    return fields.unsupported("full_attention", "RoPE settings per layer type");
  }
  const std::string_view key = fields.has("rope_type") ? "rope_type" : "type";
  BH_ASSIGN(const std::string type, fields.text_or(key, "default"));
  if (type == "default") return {};
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    BH_ASSIGN(rope.factor, fields.number("factor", kFactorRange));
    return {};
  }
  if (type == "llama3") return read_llama3(fields, rope);
  if (type == "yarn") return read_yarn(fields, context, rope);
  return fields.unsupported(
      key, fmt::format("\"{}\" is not supported; default, linear, llama3 and yarn are",
                       type.substr(0, 64)));
}

// How many of head_dim dimensions are turned; the setting stands beside rope_theta in either form.
base::Status read_rotary_dim(const JsonFields& config, double fallback, ModelConfig& out) {
  BH_ASSIGN(double part, config.number_or("partial_rotary_factor", {0.0, 1.0}, fallback));
  BH_ASSIGN(const auto parameters, config.object("rope_parameters"));
  if (parameters) {
    BH_ASSIGN(part, parameters->number_or("partial_rotary_factor", {0.0, 1.0}, part));
  }
  if (fallback == 1.0 && part != 1.0) {
    return config.unsupported("partial_rotary_factor", "only 1 is supported");
  }
  out.rotary_dim = static_cast<int32_t>(static_cast<double>(out.head_dim) * part);
  if (out.rotary_dim >= 2 && out.rotary_dim % 2 == 0) return {};
  return config.refuse(
      "partial_rotary_factor",
      fmt::format("leaves {} of {} dimensions, which must be an even number from 2", out.rotary_dim,
                  out.head_dim));
}

base::Status read_rope(const JsonFields& config, int32_t context, RopeConfig& rope) {
  BH_ASSIGN(rope.theta, config.number_or("rope_theta", kThetaRange, 10000.0));
  BH_ASSIGN(auto parameters, config.object("rope_parameters"));
  if (!parameters) {
    BH_ASSIGN(auto scaling, config.object("rope_scaling"));
    if (!scaling) return {};
    return read_scaling(*scaling, context, rope);
  }
  BH_ASSIGN(rope.theta, parameters->number_or("rope_theta", kThetaRange, rope.theta));
  return read_scaling(*parameters, context, rope);
}

base::Status refuse_unsupported(const JsonFields& config) {
  BH_ASSIGN(const std::string activation, config.text_or("hidden_act", "silu"));
  if (activation != "silu" && activation != "swish") {
    return config.unsupported(
        "hidden_act", fmt::format("\"{}\" is not supported; silu is", activation.substr(0, 64)));
  }
  BH_ASSIGN(const bool window, config.flag_or("use_sliding_window", false));
  if (window) return config.unsupported("use_sliding_window", "only false is supported");
  const boost::json::value* layer_types = config.value("layer_types");
  if (layer_types == nullptr) return {};
  if (!layer_types->is_array()) return config.refuse("layer_types", "must be an array");
  for (const boost::json::value& type : layer_types->get_array()) {
    // The sparse kind is described by settings of its own, which its families read.
    if (!type.is_string() ||
        (type.get_string() != "full_attention" && type.get_string() != "indexed_attention")) {
      return config.unsupported("layer_types", "only \"full_attention\" layers are supported");
    }
  }
  return {};
}

}  // namespace

base::Result<ModelConfig> read_json_base(std::string_view family, const JsonFields& config) {
  BH_TRY(refuse_unsupported(config));
  ModelConfig out;
  out.family = family;
  BH_ASSIGN(out.layers, config.dimension("num_hidden_layers", kLayersMax));
  BH_ASSIGN(out.hidden, config.dimension("hidden_size", kWidthMax));
  BH_ASSIGN(out.heads, config.dimension("num_attention_heads", kHeadsMax));
  BH_ASSIGN(out.intermediate, config.dimension("intermediate_size", kWidthMax));
  BH_ASSIGN(out.vocabulary, config.dimension("vocab_size", kVocabularyMax));
  BH_ASSIGN(out.context, config.dimension("max_position_embeddings", kContextMax));
  BH_ASSIGN(const double eps, config.number_or("rms_norm_eps", {0.0, 1.0}, 1e-6));
  out.rms_eps = static_cast<float>(eps);
  BH_TRY(read_rope(config, out.context, out.rope));
  BH_ASSIGN(const bool tied, config.flag_or("tie_word_embeddings", false));
  out.tie = tied ? TieRule::kTied : TieRule::kUntied;
  return out;
}

base::Result<ModelConfig> read_json_config(std::string_view family, const JsonFields& config,
                                           JsonDefaults defaults) {
  BH_ASSIGN(ModelConfig out, read_json_base(family, config));
  BH_ASSIGN(out.kv_heads, config.dimension_or("num_key_value_heads", kHeadsMax, out.heads));
  if (out.heads % out.kv_heads != 0) {
    return config.refuse(
        "num_key_value_heads",
        fmt::format("{} does not divide the {} attention heads", out.kv_heads, out.heads));
  }
  const bool divides = out.hidden % out.heads == 0;
  if (!config.has("head_dim") && defaults.head_dim == 0 && !divides) {
    return config.refuse("head_dim",
                         "missing, and num_attention_heads does not divide hidden_size");
  }
  BH_ASSIGN(out.head_dim, config.dimension_or(
                              "head_dim", kHeadDimMax,
                              defaults.head_dim != 0 ? defaults.head_dim : out.hidden / out.heads));
  if (out.head_dim % 2 != 0 || out.head_dim > kHeadDimMax) {
    return config.refuse(
        "head_dim", fmt::format("{} is not an even number up to {}", out.head_dim, kHeadDimMax));
  }
  BH_TRY(read_rotary_dim(config, defaults.rotary_part, out));
  return out;
}

}  // namespace bulkhead::model
