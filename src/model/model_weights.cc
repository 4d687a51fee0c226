#include "model/model_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "model/arena.h"
#include "model/latent_rows.h"
#include "model/tensor_convert.h"

namespace bulkhead::model {
namespace {

MlpWeights place_mlp(int64_t hidden, int64_t inner, ArenaCursor& arena) {
  return {.gate_up = arena.packed(2 * inner, hidden), .down = arena.packed(hidden, inner)};
}

MoeWeights place_moe(const ModelConfig& config, ArenaCursor& arena) {
  const int64_t hidden = config.hidden;
  MoeWeights moe;
  moe.router = arena.take<float>(int64_t{config.moe.experts} * hidden);
  if (config.moe.selection_bias) moe.selection_bias = arena.take<float>(config.moe.experts);
  for (int32_t expert = 0; expert < config.moe.experts; ++expert) {
    moe.experts.push_back(place_mlp(hidden, config.moe.intermediate, arena));
  }
  if (config.moe.shared > 0) moe.shared = place_mlp(hidden, config.shared_width(), arena);
  return moe;
}

GqaWeights place_gqa(const ModelConfig& config, ArenaCursor& arena) {
  GqaWeights out;
  out.qkv = arena.packed(config.qkv_width(), config.hidden);
  if (config.qkv_bias) out.qkv_bias = arena.take<float>(config.qkv_width());
  if (config.qk_norm) {
    out.q_norm = arena.take<float>(config.head_dim);
    out.k_norm = arena.take<float>(config.head_dim);
  }
  out.o = arena.packed(config.hidden, config.q_width());
  if (config.o_bias) out.o_bias = arena.take<float>(config.hidden);
  return out;
}

MlaWeights place_mla(const ModelConfig& config, ArenaCursor& arena) {
  const MlaConfig& mla = config.mla;
  const int64_t heads = config.heads;
  MlaWeights out;
  out.down = arena.packed(mla.q_rank + mla.key(), config.hidden);
  if (mla.q_rank > 0) out.q_norm = arena.take<float>(mla.q_rank);
  out.kv_norm = arena.take<float>(mla.latent);
  out.q_up = arena.packed(heads * mla.head_q(), mla.q_rank > 0 ? mla.q_rank : config.hidden);
  for (int64_t head = 0; head < heads; ++head) {
    out.key_up.push_back(arena.packed(mla.latent, mla.nope));
    out.value_up.push_back(arena.packed(mla.value, mla.latent));
  }
  out.o = arena.packed(config.hidden, heads * mla.value);
  return out;
}

IndexerWeights place_indexer(const ModelConfig& config, ArenaCursor& arena) {
  const IndexerConfig& indexer = config.indexer;
  IndexerWeights out;
  out.q = arena.packed(int64_t{indexer.heads} * indexer.head_dim, config.mla.q_rank);
  out.k = arena.packed(indexer.head_dim, config.hidden);
  out.k_norm = arena.take<float>(indexer.head_dim);
  out.k_norm_bias = arena.take<float>(indexer.head_dim);
  out.weights = arena.packed(indexer.heads, config.hidden);
  return out;
}

LayerWeights place_layer(const ModelConfig& config, int32_t index, ArenaCursor& arena) {
  LayerWeights layer;
  layer.attention_norm = arena.take<float>(config.hidden);
  if (config.is_latent()) {
    layer.mla = place_mla(config, arena);
  } else {
    layer.gqa = place_gqa(config, arena);
  }
  if (config.has_indexer(index)) layer.indexer = place_indexer(config, arena);
  layer.mlp_norm = arena.take<float>(config.hidden);
  if (config.is_sparse(index)) {
    layer.moe = place_moe(config, arena);
    return layer;
  }
  layer.mlp = place_mlp(config.hidden, config.intermediate, arena);
  if (config.mlp_bias) layer.gate_up_bias = arena.take<float>(2 * int64_t{config.intermediate});
  if (config.mlp_bias) layer.down_bias = arena.take<float>(config.hidden);
  return layer;
}

void place_weights(const ModelConfig& config, bool tied, ArenaCursor& arena, ModelWeights& out) {
  for (int32_t i = 0; i < config.layers; ++i) out.layers.push_back(place_layer(config, i, arena));
  out.final_norm = arena.take<float>(config.hidden);
  if (!tied) out.embedding = arena.take<quant::Bf16>(int64_t{config.vocabulary} * config.hidden);
  out.head = arena.packed(config.vocabulary, config.hidden);
}

// Fills the places one tensor after the other.
class Filler {
 public:
  Filler(const Checkpoint& checkpoint, const TensorMatch& match, device::ThreadPool& pool,
         ModelWeights& out)
      : config_(checkpoint.config()),
        tied_(match.tied),
        out_(out),
        converter_(checkpoint, pool),
        latent_(converter_) {}

  base::Status fill(const MatchedTensor& tensor) {
    const TensorInfo& source = *tensor.source;
    const int64_t q = config_.q_width();
    const int64_t kv = config_.kv_width();
    const int64_t inner = config_.intermediate;
    const int64_t group = config_.qk_rows_interleaved ? config_.head_dim : 0;
    static const LayerWeights kNoLayer;
    const LayerWeights& layer = tensor.expected.layer < 0
                                    ? kNoLayer
                                    : out_.layers[static_cast<size_t>(tensor.expected.layer)];
    if (config_.is_latent() && tensor.expected.layer >= 0 &&
        is_of_attention(tensor.expected.role)) {
      return fill_mla(tensor, layer);
    }
    switch (tensor.expected.role) {
      case WeightRole::kEmbedding:
        if (!tied_) return matrix(source, out_.embedding, {.packed = false});
        return matrix(source, out_.head.bf16(), {});
      case WeightRole::kHead:
        return matrix(source, out_.head.bf16(), {});
      case WeightRole::kFinalNorm:
        return vector(source, out_.final_norm);
      case WeightRole::kRopeFactors:
        return rope_factors(source);
      case WeightRole::kAttentionNorm:
        return vector(source, layer.attention_norm);
      case WeightRole::kQ:
        return matrix(source, layer.gqa.qkv.bf16(), {.interleaved_group = group});
      case WeightRole::kK:
        return matrix(source, layer.gqa.qkv.bf16(), {.row_begin = q, .interleaved_group = group});
      case WeightRole::kV:
        return matrix(source, layer.gqa.qkv.bf16(), {.row_begin = q + kv});
      case WeightRole::kO:
        return matrix(source, layer.gqa.o.bf16(), {});
      case WeightRole::kQBias:
        return vector(source, layer.gqa.qkv_bias, group);
      case WeightRole::kKBias:
        return vector(source, layer.gqa.qkv_bias + q, group);
      case WeightRole::kVBias:
        return vector(source, layer.gqa.qkv_bias + q + kv);
      case WeightRole::kOBias:
        return vector(source, layer.gqa.o_bias);
      case WeightRole::kQNorm:
        return vector(source, layer.gqa.q_norm, group);
      case WeightRole::kKNorm:
        return vector(source, layer.gqa.k_norm, group);
      case WeightRole::kMlpNorm:
        return vector(source, layer.mlp_norm);
      case WeightRole::kGate:
        return matrix(source, layer.mlp.gate_up.bf16(), {});
      case WeightRole::kUp:
        return matrix(source, layer.mlp.gate_up.bf16(), {.row_begin = inner});
      case WeightRole::kDown:
        return matrix(source, layer.mlp.down.bf16(), {});
      case WeightRole::kGateBias:
        return vector(source, layer.gate_up_bias);
      case WeightRole::kUpBias:
        return vector(source, layer.gate_up_bias + inner);
      case WeightRole::kDownBias:
        return vector(source, layer.down_bias);
      default:
        return fill_moe(tensor, layer.moe);
    }
  }

 private:
  static bool is_of_attention(WeightRole role) {
    return role == WeightRole::kQ || role == WeightRole::kO ||
           (role >= WeightRole::kQDown && role <= WeightRole::kIndexWeights);
  }

  base::Status fill_mla(const MatchedTensor& tensor, const LayerWeights& layer) {
    const TensorInfo& source = *tensor.source;
    const MlaConfig& mla = config_.mla;
    const int64_t turned = mla.interleaved ? mla.rope : 0;
    switch (tensor.expected.role) {
      case WeightRole::kQDown:
        return matrix(source, layer.mla.down.bf16(), {});
      case WeightRole::kKvDown:
        return latent_.matrix(source, layer.mla.down, mla.q_rank,
                              {.unit = mla.key(), .begin = mla.latent, .turned = turned});
      case WeightRole::kQ:
      case WeightRole::kQUp:
        return latent_.matrix(source, layer.mla.q_up, 0,
                              {.unit = mla.head_q(), .begin = mla.nope, .turned = turned});
      case WeightRole::kKvUp:
        return latent_.key_values(source, layer.mla);
      case WeightRole::kQDownNorm:
        return vector(source, layer.mla.q_norm);
      case WeightRole::kKvNorm:
        return vector(source, layer.mla.kv_norm);
      case WeightRole::kO:
        return matrix(source, layer.mla.o.bf16(), {});
      default:
        return fill_indexer(tensor, layer.indexer);
    }
  }

  base::Status fill_indexer(const MatchedTensor& tensor, const IndexerWeights& indexer) {
    const TensorInfo& source = *tensor.source;
    const TurnedRows rows = {.unit = config_.indexer.head_dim,
                             .begin = 0,
                             .turned = config_.indexer.interleaved ? config_.mla.rope : 0};
    switch (tensor.expected.role) {
      case WeightRole::kIndexQ:
        return latent_.matrix(source, indexer.q, 0, rows);
      case WeightRole::kIndexK:
        return latent_.matrix(source, indexer.k, 0, rows);
      case WeightRole::kIndexKNorm:
        return latent_.vector(source, indexer.k_norm, rows);
      case WeightRole::kIndexKNormBias:
        return latent_.vector(source, indexer.k_norm_bias, rows);
      case WeightRole::kIndexWeights:
        return matrix(source, indexer.weights.bf16(), {});
      default:
        BH_CHECK(false, "a WeightRole outside its enumeration");
    }
  }

  base::Status fill_moe(const MatchedTensor& tensor, const MoeWeights& moe) {
    const TensorInfo& source = *tensor.source;
    static const MlpWeights kNoExpert;
    const MlpWeights& expert = tensor.expected.expert < 0
                                   ? kNoExpert
                                   : moe.experts[static_cast<size_t>(tensor.expected.expert)];
    switch (tensor.expected.role) {
      case WeightRole::kRouter:
        return vector(source, moe.router);
      case WeightRole::kSelectionBias:
        return vector(source, moe.selection_bias);
      case WeightRole::kExpertGate:
        return matrix(source, expert.gate_up.bf16(), {});
      case WeightRole::kExpertUp:
        return matrix(source, expert.gate_up.bf16(), {.row_begin = config_.moe.intermediate});
      case WeightRole::kExpertDown:
        return matrix(source, expert.down.bf16(), {});
      case WeightRole::kSharedGate:
        return matrix(source, moe.shared.gate_up.bf16(), {});
      case WeightRole::kSharedUp:
        return matrix(source, moe.shared.gate_up.bf16(), {.row_begin = config_.shared_width()});
      case WeightRole::kSharedDown:
        return matrix(source, moe.shared.down.bf16(), {});
      default:
        BH_CHECK(false, "a WeightRole outside its enumeration");
    }
  }

  struct Options {
    bool packed = true;
    int64_t row_begin = 0;
    int64_t interleaved_group = 0;
  };

  // The places are in out_.arena, which this object fills: they are const for everyone else.
  base::Status matrix(const TensorInfo& source, const quant::Bf16* place, Options options) {
    return converter_.matrix(source, {.data = const_cast<quant::Bf16*>(place),
                                      .packed = options.packed,
                                      .row_begin = options.row_begin,
                                      .interleaved_group = options.interleaved_group});
  }

  base::Status vector(const TensorInfo& source, const float* place, int64_t group = 0) {
    return converter_.vector(source, group,
                             {const_cast<float*>(place), static_cast<size_t>(source.elements)});
  }

  base::Status rope_factors(const TensorInfo& source) {
    std::vector<float> factors(static_cast<size_t>(source.elements));
    BH_TRY(converter_.vector(source, 0, factors));
    for (size_t i = 0; i < factors.size(); ++i) {
      if (factors[i] <= 0.0f) {
        return base::corrupt(fmt::format("tensor \"{}\": element {} is {}, not a positive factor",
                                         source.name, i, factors[i]));
      }
      out_.inverse_frequencies[i] /= factors[i];
    }
    return {};
  }

  const ModelConfig& config_;
  const bool tied_;
  ModelWeights& out_;
  TensorConverter converter_;
  LatentRows latent_;
};

}  // namespace

uint64_t arena_bytes(const ModelConfig& config, const TensorMatch& match) {
  ModelWeights unused;
  ArenaCursor measure(nullptr);
  place_weights(config, match.tied, measure, unused);
  return measure.used();
}

base::Result<ModelWeights> load_weights(const Checkpoint& checkpoint, const TensorMatch& match,
                                        device::ThreadPool& pool, const ProgressFn& progress) {
  const ModelConfig& config = checkpoint.config();
  ModelWeights out;
  BH_ASSIGN(out.arena, device::Buffer::allocate(static_cast<size_t>(arena_bytes(config, match))));
  ArenaCursor arena(out.arena.data());
  place_weights(config, match.tied, arena, out);
  out.inverse_frequencies = inverse_frequencies(config.rope, config.rotary_dim);
  LoadProgress state;
  state.tensors_total = static_cast<uint32_t>(match.tensors.size());
  for (const MatchedTensor& tensor : match.tensors) state.bytes_total += tensor.source->bytes;
  Filler filler(checkpoint, match, pool, out);
  for (const MatchedTensor& tensor : match.tensors) {
    BH_TRY(filler.fill(tensor));
    state.bytes_done += tensor.source->bytes;
    state.tensors_done += 1;
    if (progress) progress(state);
  }
  return out;
}

}  // namespace bulkhead::model
