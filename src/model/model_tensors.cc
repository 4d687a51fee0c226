#include "model/model_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <unordered_set>

namespace bulkhead::model {
namespace {

struct RoleName {
  WeightRole role;
  std::string_view safetensors;
  std::string_view gguf;
};

// Layer names follow "model.layers.N." and "blk.N.".
constexpr std::array kNames = {
    RoleName{WeightRole::kEmbedding, "model.embed_tokens.weight", "token_embd.weight"},
    RoleName{WeightRole::kHead, "lm_head.weight", "output.weight"},
    RoleName{WeightRole::kFinalNorm, "model.norm.weight", "output_norm.weight"},
    RoleName{WeightRole::kRopeFactors, "", "rope_freqs.weight"},
    RoleName{WeightRole::kAttentionNorm, "input_layernorm.weight", "attn_norm.weight"},
    RoleName{WeightRole::kQ, "self_attn.q_proj.weight", "attn_q.weight"},
    RoleName{WeightRole::kK, "self_attn.k_proj.weight", "attn_k.weight"},
    RoleName{WeightRole::kV, "self_attn.v_proj.weight", "attn_v.weight"},
    RoleName{WeightRole::kO, "self_attn.o_proj.weight", "attn_output.weight"},
    RoleName{WeightRole::kQBias, "self_attn.q_proj.bias", "attn_q.bias"},
    RoleName{WeightRole::kKBias, "self_attn.k_proj.bias", "attn_k.bias"},
    RoleName{WeightRole::kVBias, "self_attn.v_proj.bias", "attn_v.bias"},
    RoleName{WeightRole::kOBias, "self_attn.o_proj.bias", "attn_output.bias"},
    RoleName{WeightRole::kQNorm, "self_attn.q_norm.weight", "attn_q_norm.weight"},
    RoleName{WeightRole::kKNorm, "self_attn.k_norm.weight", "attn_k_norm.weight"},
    RoleName{WeightRole::kMlpNorm, "post_attention_layernorm.weight", "ffn_norm.weight"},
    RoleName{WeightRole::kGate, "mlp.gate_proj.weight", "ffn_gate.weight"},
    RoleName{WeightRole::kUp, "mlp.up_proj.weight", "ffn_up.weight"},
    RoleName{WeightRole::kDown, "mlp.down_proj.weight", "ffn_down.weight"},
    RoleName{WeightRole::kGateBias, "mlp.gate_proj.bias", "ffn_gate.bias"},
    RoleName{WeightRole::kUpBias, "mlp.up_proj.bias", "ffn_up.bias"},
    RoleName{WeightRole::kDownBias, "mlp.down_proj.bias", "ffn_down.bias"},
    RoleName{WeightRole::kQDown, "self_attn.q_a_proj.weight", ""},
    RoleName{WeightRole::kQDownNorm, "self_attn.q_a_layernorm.weight", ""},
    RoleName{WeightRole::kQUp, "self_attn.q_b_proj.weight", ""},
    RoleName{WeightRole::kKvDown, "self_attn.kv_a_proj_with_mqa.weight", ""},
    RoleName{WeightRole::kKvNorm, "self_attn.kv_a_layernorm.weight", ""},
    RoleName{WeightRole::kKvUp, "self_attn.kv_b_proj.weight", ""},
    RoleName{WeightRole::kIndexQ, "self_attn.indexer.wq_b.weight", ""},
    RoleName{WeightRole::kIndexK, "self_attn.indexer.wk.weight", ""},
    RoleName{WeightRole::kIndexKNorm, "self_attn.indexer.k_norm.weight", ""},
    RoleName{WeightRole::kIndexKNormBias, "self_attn.indexer.k_norm.bias", ""},
    RoleName{WeightRole::kIndexWeights, "self_attn.indexer.weights_proj.weight", ""},
    RoleName{WeightRole::kRouter, "mlp.gate.weight", ""},
    RoleName{WeightRole::kSelectionBias, "mlp.gate.e_score_correction_bias", ""},
    // Of an expert, behind "mlp.experts.E.".
    RoleName{WeightRole::kExpertGate, "gate_proj.weight", ""},
    RoleName{WeightRole::kExpertUp, "up_proj.weight", ""},
    RoleName{WeightRole::kExpertDown, "down_proj.weight", ""},
    RoleName{WeightRole::kSharedGate, "mlp.shared_experts.gate_proj.weight", ""},
    RoleName{WeightRole::kSharedUp, "mlp.shared_experts.up_proj.weight", ""},
    RoleName{WeightRole::kSharedDown, "mlp.shared_experts.down_proj.weight", ""},
};

class SetBuilder {
 public:
  SetBuilder(CheckpointFormat format, std::string_view prefix) : format_(format), prefix_(prefix) {}

  void add(WeightRole role, int32_t layer, int64_t rows, int64_t columns = 0) {
    const bool gguf = format_ == CheckpointFormat::kGguf;
    const std::string_view base = gguf ? find(role).gguf : find(role).safetensors;
    std::string name =
        layer < 0 ? fmt::format("{}{}", prefix_, base)
                  : fmt::format("{}{}.{}.{}", prefix_, gguf ? "blk" : "model.layers", layer, base);
    set_.push_back({role, layer, -1, std::move(name), rows, columns});
  }

  void add_expert(WeightRole role, int32_t layer, int32_t expert, int64_t rows, int64_t columns) {
    const std::string_view base = find(role).safetensors;
    set_.push_back(
        {role, layer, expert,
         fmt::format("{}model.layers.{}.mlp.experts.{}.{}", prefix_, layer, expert, base), rows,
         columns});
  }

  std::vector<ExpectedTensor> take() { return std::move(set_); }

 private:
  static const RoleName& find(WeightRole role) {
    return *std::find_if(kNames.begin(), kNames.end(),
                         [&](const RoleName& name) { return name.role == role; });
  }

  const CheckpointFormat format_;
  const std::string_view prefix_;
  std::vector<ExpectedTensor> set_;
};

void add_experts(const ModelConfig& config, int32_t layer, SetBuilder& set) {
  const int64_t hidden = config.hidden;
  const int64_t inner = config.moe.intermediate;
  set.add(WeightRole::kRouter, layer, config.moe.experts, hidden);
  if (config.moe.selection_bias) set.add(WeightRole::kSelectionBias, layer, config.moe.experts);
  for (int32_t expert = 0; expert < config.moe.experts; ++expert) {
    set.add_expert(WeightRole::kExpertGate, layer, expert, inner, hidden);
    set.add_expert(WeightRole::kExpertUp, layer, expert, inner, hidden);
    set.add_expert(WeightRole::kExpertDown, layer, expert, hidden, inner);
  }
  if (config.moe.shared == 0) return;
  set.add(WeightRole::kSharedGate, layer, config.shared_width(), hidden);
  set.add(WeightRole::kSharedUp, layer, config.shared_width(), hidden);
  set.add(WeightRole::kSharedDown, layer, hidden, config.shared_width());
}

void add_latent_attention(const ModelConfig& config, int32_t layer, SetBuilder& set) {
  const int64_t hidden = config.hidden;
  const int64_t heads = config.heads;
  const MlaConfig& mla = config.mla;
  if (mla.q_rank > 0) {
    set.add(WeightRole::kQDown, layer, mla.q_rank, hidden);
    set.add(WeightRole::kQDownNorm, layer, mla.q_rank);
    set.add(WeightRole::kQUp, layer, heads * mla.head_q(), mla.q_rank);
  } else {
    set.add(WeightRole::kQ, layer, heads * mla.head_q(), hidden);
  }
  set.add(WeightRole::kKvDown, layer, mla.key(), hidden);
  set.add(WeightRole::kKvNorm, layer, mla.latent);
  set.add(WeightRole::kKvUp, layer, heads * (mla.nope + mla.value), mla.latent);
  set.add(WeightRole::kO, layer, hidden, heads * mla.value);
  if (!config.has_indexer(layer)) return;
  const IndexerConfig& indexer = config.indexer;
  set.add(WeightRole::kIndexQ, layer, int64_t{indexer.heads} * indexer.head_dim, mla.q_rank);
  set.add(WeightRole::kIndexK, layer, indexer.head_dim, hidden);
  set.add(WeightRole::kIndexKNorm, layer, indexer.head_dim);
  set.add(WeightRole::kIndexKNormBias, layer, indexer.head_dim);
  set.add(WeightRole::kIndexWeights, layer, indexer.heads, hidden);
}

void add_grouped_attention(const ModelConfig& config, int32_t layer, SetBuilder& set) {
  const int64_t hidden = config.hidden;
  set.add(WeightRole::kQ, layer, config.q_width(), hidden);
  set.add(WeightRole::kK, layer, config.kv_width(), hidden);
  set.add(WeightRole::kV, layer, config.kv_width(), hidden);
  if (config.qkv_bias) {
    set.add(WeightRole::kQBias, layer, config.q_width());
    set.add(WeightRole::kKBias, layer, config.kv_width());
    set.add(WeightRole::kVBias, layer, config.kv_width());
  }
  if (config.qk_norm) {
    set.add(WeightRole::kQNorm, layer, config.head_dim);
    set.add(WeightRole::kKNorm, layer, config.head_dim);
  }
  set.add(WeightRole::kO, layer, hidden, config.q_width());
  if (config.o_bias) set.add(WeightRole::kOBias, layer, hidden);
}

void add_layer(const ModelConfig& config, int32_t layer, SetBuilder& set) {
  const int64_t hidden = config.hidden;
  const int64_t inner = config.intermediate;
  set.add(WeightRole::kAttentionNorm, layer, hidden);
  if (config.is_latent()) {
    add_latent_attention(config, layer, set);
  } else {
    add_grouped_attention(config, layer, set);
  }
  set.add(WeightRole::kMlpNorm, layer, hidden);
  if (config.is_sparse(layer)) return add_experts(config, layer, set);
  set.add(WeightRole::kGate, layer, inner, hidden);
  set.add(WeightRole::kUp, layer, inner, hidden);
  set.add(WeightRole::kDown, layer, hidden, inner);
  if (config.mlp_bias) {
    set.add(WeightRole::kGateBias, layer, inner);
    set.add(WeightRole::kUpBias, layer, inner);
    set.add(WeightRole::kDownBias, layer, hidden);
  }
}

// Whether the tensor belongs to one of the layers for next-token prediction, which the model's own
// are followed by.
bool predicts(const ModelConfig& config, std::string_view name) {
  const std::string stem = config.name_prefix + "model.layers.";
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  int32_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc{} || end == name.data() + name.size() || *end != '.') return false;
  return layer >= config.layers && layer - config.layers < config.prediction_layers;
}

// Besides those of other towers and predicted tokens: tables of frequencies that older exporters
// stored and that follow from the configuration.
bool is_ignored(const ModelConfig& config, std::string_view name) {
  if (name.ends_with(".rotary_emb.inv_freq") || predicts(config, name)) return true;
  return std::ranges::any_of(config.ignored_prefixes,
                             [&](const std::string& prefix) { return name.starts_with(prefix); });
}

// The tie rule's outcome: whether one table serves for both, and which of the two tensors it is.
struct Tie {
  bool tied = false;
  WeightRole absent_or_same = WeightRole::kHead;  // needs no entry when tied
};

base::Result<bool> same_bytes(const Checkpoint& checkpoint, const TensorInfo& a,
                              const TensorInfo& b) {
  if (a.type != b.type || a.shape != b.shape) return false;
  constexpr uint64_t kChunk = 256u << 10;
  std::vector<std::byte> left(kChunk);
  std::vector<std::byte> right(kChunk);
  for (uint64_t at = 0; at < a.bytes; at += kChunk) {
    const auto count = static_cast<size_t>(std::min(kChunk, a.bytes - at));
    BH_TRY(checkpoint.read(a, at, std::span(left).first(count)));
    BH_TRY(checkpoint.read(b, at, std::span(right).first(count)));
    if (std::memcmp(left.data(), right.data(), count) != 0) return false;
  }
  return true;
}

base::Result<Tie> decide_tie(const Checkpoint& checkpoint, const ExpectedTensor& embedding,
                             const ExpectedTensor& head) {
  const TensorInfo* embedding_source = checkpoint.find(embedding.name);
  const TensorInfo* head_source = checkpoint.find(head.name);
  switch (checkpoint.config().tie) {
    case TieRule::kUntied:
      if (head_source == nullptr) {
        return base::corrupt(
            fmt::format("{}: tensor \"{}\" is missing, and the configuration's "
                        "tie_word_embeddings is false",
                        checkpoint.name(), head.name));
      }
      return Tie{};
    case TieRule::kByPresence:
      return Tie{head_source == nullptr, WeightRole::kHead};
    case TieRule::kTied:
      break;
  }
  if (head_source == nullptr) return Tie{true, WeightRole::kHead};
  if (embedding_source == nullptr) return Tie{true, WeightRole::kEmbedding};
  BH_ASSIGN(const bool same, same_bytes(checkpoint, *embedding_source, *head_source));
  return Tie{same, WeightRole::kHead};
}

base::Status check_tensor(const Checkpoint& checkpoint, const ExpectedTensor& expected,
                          const TensorInfo& source) {
  std::vector<uint64_t> shape = {static_cast<uint64_t>(expected.rows)};
  if (expected.columns > 0) shape.push_back(static_cast<uint64_t>(expected.columns));
  if (source.shape != shape) {
    return base::corrupt(fmt::format("{}: tensor \"{}\" has shape {}, the configuration wants {}",
                                     checkpoint.file_name(source), source.name,
                                     shape_text(source.shape), shape_text(shape)));
  }
  if (!is_weight_type(source.type)) {
    return base::unsupported(
        fmt::format("{}: tensor \"{}\" is {}; F32, F16, BF16 and GGUF's blocks can be loaded",
                    checkpoint.file_name(source), source.name, to_string(source.type)));
  }
  return {};
}

base::Status check_no_leftovers(const Checkpoint& checkpoint,
                                const std::unordered_set<std::string_view>& used) {
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (used.contains(tensor.name) || is_ignored(checkpoint.config(), tensor.name)) continue;
    return base::corrupt(fmt::format(
        "{}: tensor \"{}\" has no place in a {} model of {} layers with this configuration",
        checkpoint.file_name(tensor), tensor.name, checkpoint.config().family,
        checkpoint.config().layers));
  }
  return {};
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config, CheckpointFormat format) {
  SetBuilder set(format, config.name_prefix);
  set.add(WeightRole::kEmbedding, -1, config.vocabulary, config.hidden);
  set.add(WeightRole::kHead, -1, config.vocabulary, config.hidden);
  set.add(WeightRole::kFinalNorm, -1, config.hidden);
  if (config.rope.factors_in_file) set.add(WeightRole::kRopeFactors, -1, config.rotary_dim / 2);
  for (int32_t layer = 0; layer < config.layers; ++layer) add_layer(config, layer, set);
  return set.take();
}

base::Result<TensorMatch> match_tensors(const Checkpoint& checkpoint) {
  std::vector<ExpectedTensor> expected = expected_tensors(checkpoint.config(), checkpoint.format());
  BH_ASSIGN(const Tie tie, decide_tie(checkpoint, expected[0], expected[1]));
  TensorMatch match;
  match.tied = tie.tied;
  std::unordered_set<std::string_view> used;
  for (ExpectedTensor& tensor : expected) {
    const TensorInfo* source = checkpoint.find(tensor.name);
    const bool shared = tie.tied && tensor.role == tie.absent_or_same;
    if (source == nullptr && shared) continue;
    if (source == nullptr) {
      return base::corrupt(
          fmt::format("{}: tensor \"{}\" is missing", checkpoint.name(), tensor.name));
    }
    BH_TRY(check_tensor(checkpoint, tensor, *source));
    used.insert(source->name);
    if (shared) continue;
    match.parameters += source->elements;
    match.tensors.push_back({std::move(tensor), source});
  }
  BH_TRY(check_no_leftovers(checkpoint, used));
  return match;
}

}  // namespace bulkhead::model
