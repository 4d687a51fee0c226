#include "model/model_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "model/arena.h"
#include "model/latent_rows.h"
#include "model/tensor_convert.h"

namespace bulkhead::model {
namespace {

// Walks the arena in the order in which weights lie there.
class Placer {
 public:
  Placer(const ModelConfig& config, const WeightFormats& formats, ArenaCursor& arena)
      : config_(config), formats_(formats), arena_(arena) {}

  void place(bool tied, ModelWeights& out) {
    out.layers.reserve(static_cast<size_t>(config_.layers));
    for (layer_ = 0; layer_ < config_.layers; ++layer_) out.layers.push_back(place_layer());
    layer_ = kNoLayer;
    out.final_norm = arena_.take<float>(config_.hidden);
    out.embedding = matrix(WeightRole::kEmbedding, config_.vocabulary, config_.hidden);
    out.head = tied ? out.embedding : matrix(WeightRole::kHead, config_.vocabulary, config_.hidden);
  }

 private:
  static constexpr int32_t kNoLayer = -1;
  static constexpr int32_t kNoExpert = -1;

  // In the format of the matrix that a tensor of this role is a part of.
  kernels::PackedWeights matrix(WeightRole role, int64_t n, int64_t k, int32_t expert = kNoExpert) {
    return arena_.packed(n, k, formats_.of(role, layer_, expert));
  }

  MlpWeights place_mlp(WeightRole gate, WeightRole down, int64_t inner,
                       int32_t expert = kNoExpert) {
    return {.gate_up = matrix(gate, 2 * inner, config_.hidden, expert),
            .down = matrix(down, config_.hidden, inner, expert)};
  }

  MoeWeights place_moe() {
    const MoeConfig& config = config_.moe;
    MoeWeights moe;
    moe.router = arena_.take<float>(int64_t{config.experts} * config_.hidden);
    if (config.selection_bias) moe.selection_bias = arena_.take<float>(config.experts);
    moe.experts.reserve(static_cast<size_t>(config.experts));
    for (int32_t expert = 0; expert < config.experts; ++expert) {
      moe.experts.push_back(
          place_mlp(WeightRole::kExpertGate, WeightRole::kExpertDown, config.intermediate, expert));
    }
    if (config.shared > 0) {
      moe.shared =
          place_mlp(WeightRole::kSharedGate, WeightRole::kSharedDown, config_.shared_width());
    }
    return moe;
  }

  GqaWeights place_gqa() {
    GqaWeights out;
    out.qkv = matrix(WeightRole::kQ, config_.qkv_width(), config_.hidden);
    if (config_.qkv_bias) out.qkv_bias = arena_.take<float>(config_.qkv_width());
    if (config_.qk_norm) {
      out.q_norm = arena_.take<float>(config_.head_dim);
      out.k_norm = arena_.take<float>(config_.head_dim);
    }
    out.o = matrix(WeightRole::kO, config_.hidden, config_.q_width());
    if (config_.o_bias) out.o_bias = arena_.take<float>(config_.hidden);
    return out;
  }

  MlaWeights place_mla() {
    const MlaConfig& mla = config_.mla;
    const int64_t heads = config_.heads;
    MlaWeights out;
    out.down = matrix(WeightRole::kKvDown, mla.q_rank + mla.key(), config_.hidden);
    if (mla.q_rank > 0) out.q_norm = arena_.take<float>(mla.q_rank);
    out.kv_norm = arena_.take<float>(mla.latent);
    out.q_up = mla.q_rank > 0 ? matrix(WeightRole::kQUp, heads * mla.head_q(), mla.q_rank)
                              : matrix(WeightRole::kQ, heads * mla.head_q(), config_.hidden);
    for (int64_t head = 0; head < heads; ++head) {
      out.key_up.push_back(arena_.packed(mla.latent, mla.nope, kernels::WeightFormat::kBf16));
      out.value_up.push_back(matrix(WeightRole::kKvUp, mla.value, mla.latent));
    }
    out.o = matrix(WeightRole::kO, config_.hidden, heads * mla.value);
    return out;
  }

  IndexerWeights place_indexer() {
    const IndexerConfig& indexer = config_.indexer;
    IndexerWeights out;
    out.q =
        matrix(WeightRole::kIndexQ, int64_t{indexer.heads} * indexer.head_dim, config_.mla.q_rank);
    out.k = matrix(WeightRole::kIndexK, indexer.head_dim, config_.hidden);
    out.k_norm = arena_.take<float>(indexer.head_dim);
    out.k_norm_bias = arena_.take<float>(indexer.head_dim);
    out.weights = matrix(WeightRole::kIndexWeights, indexer.heads, config_.hidden);
    return out;
  }

  LayerWeights place_layer() {
    LayerWeights layer;
    layer.attention_norm = arena_.take<float>(config_.hidden);
    if (config_.is_latent()) {
      layer.mla = place_mla();
    } else {
      layer.gqa = place_gqa();
    }
    if (config_.has_indexer(layer_)) layer.indexer = place_indexer();
    layer.mlp_norm = arena_.take<float>(config_.hidden);
    if (config_.is_sparse(layer_)) {
      layer.moe = place_moe();
      return layer;
    }
    const int64_t inner = config_.intermediate;
    layer.mlp = place_mlp(WeightRole::kGate, WeightRole::kDown, inner);
    if (config_.mlp_bias) layer.gate_up_bias = arena_.take<float>(2 * inner);
    if (config_.mlp_bias) layer.down_bias = arena_.take<float>(config_.hidden);
    return layer;
  }

  const ModelConfig& config_;
  const WeightFormats& formats_;
  ArenaCursor& arena_;
  int32_t layer_ = kNoLayer;
};

// Fills the places one tensor after the other.
class Filler {
 public:
  Filler(const Checkpoint& checkpoint, device::ThreadPool& pool, ModelWeights& out)
      : config_(checkpoint.config()),
        out_(out),
        converter_(checkpoint, pool),
        latent_(converter_) {}

  base::Status fill(const MatchedTensor& tensor) {
    const TensorInfo& source = *tensor.source;
    const int64_t q = config_.q_width();
    const int64_t kv = config_.kv_width();
    const int64_t inner = config_.intermediate;
    const int64_t turned = config_.qk_rows_interleaved ? config_.head_dim : 0;
    const TurnedRows heads = {.unit = turned, .begin = 0, .turned = turned};
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
        return matrix(source, out_.embedding);
      case WeightRole::kHead:
        return matrix(source, out_.head);
      case WeightRole::kFinalNorm:
        return vector(source, out_.final_norm);
      case WeightRole::kRopeFactors:
        return rope_factors(source);
      case WeightRole::kAttentionNorm:
        return vector(source, layer.attention_norm);
      case WeightRole::kQ:
        return matrix(source, layer.gqa.qkv, 0, heads);
      case WeightRole::kK:
        return matrix(source, layer.gqa.qkv, q, heads);
      case WeightRole::kV:
        return matrix(source, layer.gqa.qkv, q + kv);
      case WeightRole::kO:
        return matrix(source, layer.gqa.o);
      case WeightRole::kQBias:
        return vector(source, layer.gqa.qkv_bias, heads);
      case WeightRole::kKBias:
        return vector(source, layer.gqa.qkv_bias + q, heads);
      case WeightRole::kVBias:
        return vector(source, layer.gqa.qkv_bias + q + kv);
      case WeightRole::kOBias:
        return vector(source, layer.gqa.o_bias);
      case WeightRole::kQNorm:
        return vector(source, layer.gqa.q_norm, heads);
      case WeightRole::kKNorm:
        return vector(source, layer.gqa.k_norm, heads);
      case WeightRole::kMlpNorm:
        return vector(source, layer.mlp_norm);
      case WeightRole::kGate:
        return matrix(source, layer.mlp.gate_up);
      case WeightRole::kUp:
        return matrix(source, layer.mlp.gate_up, inner);
      case WeightRole::kDown:
        return matrix(source, layer.mlp.down);
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
        return matrix(source, layer.mla.down);
      case WeightRole::kKvDown:
        return matrix(source, layer.mla.down, mla.q_rank,
                      {.unit = mla.key(), .begin = mla.latent, .turned = turned});
      case WeightRole::kQ:
      case WeightRole::kQUp:
        return matrix(source, layer.mla.q_up, 0,
                      {.unit = mla.head_q(), .begin = mla.nope, .turned = turned});
      case WeightRole::kKvUp:
        return latent_.key_values(source, layer.mla);
      case WeightRole::kQDownNorm:
        return vector(source, layer.mla.q_norm);
      case WeightRole::kKvNorm:
        return vector(source, layer.mla.kv_norm);
      case WeightRole::kO:
        return matrix(source, layer.mla.o);
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
        return matrix(source, indexer.q, 0, rows);
      case WeightRole::kIndexK:
        return matrix(source, indexer.k, 0, rows);
      case WeightRole::kIndexKNorm:
        return vector(source, indexer.k_norm, rows);
      case WeightRole::kIndexKNormBias:
        return vector(source, indexer.k_norm_bias, rows);
      case WeightRole::kIndexWeights:
        return matrix(source, indexer.weights);
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
        return matrix(source, expert.gate_up);
      case WeightRole::kExpertUp:
        return matrix(source, expert.gate_up, config_.moe.intermediate);
      case WeightRole::kExpertDown:
        return matrix(source, expert.down);
      case WeightRole::kSharedGate:
        return matrix(source, moe.shared.gate_up);
      case WeightRole::kSharedUp:
        return matrix(source, moe.shared.gate_up, config_.shared_width());
      case WeightRole::kSharedDown:
        return matrix(source, moe.shared.down);
      default:
        BH_CHECK(false, "a WeightRole outside its enumeration");
    }
  }

  base::Status matrix(const TensorInfo& source, const kernels::PackedWeights& place,
                      int64_t row_begin = 0, const TurnedRows& turned = {}) {
    return converter_.matrix(source, place, row_begin, turned);
  }

  // The places are in out_.arena, which this object fills: they are const for everyone else.
  base::Status vector(const TensorInfo& source, const float* place, const TurnedRows& turned = {}) {
    return converter_.vector(source, turned,
                             {const_cast<float*>(place), static_cast<size_t>(source.elements)});
  }

  base::Status rope_factors(const TensorInfo& source) {
    std::vector<float> factors(static_cast<size_t>(source.elements));
    BH_TRY(converter_.vector(source, {}, factors));
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
  ModelWeights& out_;
  TensorConverter converter_;
  LatentRows latent_;
};

}  // namespace

uint64_t arena_bytes(const ModelConfig& config, const TensorMatch& match,
                     const WeightFormats& formats) {
  ModelWeights unused;
  ArenaCursor measure(nullptr);
  Placer(config, formats, measure).place(match.tied, unused);
  return measure.used();
}

base::Result<ModelWeights> load_weights(const Checkpoint& checkpoint, const TensorMatch& match,
                                        const WeightFormats& formats, device::ThreadPool& pool,
                                        const ProgressFn& progress) {
  const ModelConfig& config = checkpoint.config();
  ModelWeights out;
  const uint64_t bytes = arena_bytes(config, match, formats);
  BH_ASSIGN(out.arena, device::Buffer::allocate(static_cast<size_t>(bytes)));
  ArenaCursor arena(out.arena.data());
  Placer(config, formats, arena).place(match.tied, out);
  out.inverse_frequencies = inverse_frequencies(config.rope, config.rotary_dim);
  LoadProgress state;
  state.tensors_total = static_cast<uint32_t>(match.tensors.size());
  for (const MatchedTensor& tensor : match.tensors) state.bytes_total += tensor.source->bytes;
  Filler filler(checkpoint, pool, out);
  for (const MatchedTensor& tensor : match.tensors) {
    BH_TRY(filler.fill(tensor));
    state.bytes_done += tensor.source->bytes;
    state.tensors_done += 1;
    if (progress) progress(state);
  }
  return out;
}

}  // namespace bulkhead::model
