#include "model/dense_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "model/tensor_convert.h"

namespace bulkhead::model {
namespace {

using kernels::PackedWeights;

// Hands out the arena front to back. Run once without memory to learn the size, once with it to get
// the pointers: both walks are the same code.
class ArenaCursor {
 public:
  explicit ArenaCursor(std::byte* base) : base_(base) {}

  uint64_t used() const { return used_; }

  PackedWeights packed(int64_t n, int64_t k) {
    return {take<quant::Bf16>(kernels::packed_bytes(n, k)), n, k};
  }
  const quant::Bf16* rows(int64_t n, int64_t k) {
    return take<quant::Bf16>(static_cast<size_t>(n * k) * sizeof(quant::Bf16));
  }
  const float* floats(int64_t n) { return take<float>(static_cast<size_t>(n) * sizeof(float)); }

 private:
  template <typename T>
  const T* take(size_t bytes) {
    constexpr uint64_t kAlign = 64;
    const T* place = base_ == nullptr ? nullptr : reinterpret_cast<const T*>(base_ + used_);
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
    return place;
  }

  std::byte* base_;
  uint64_t used_ = 0;
};

MlpWeights place_mlp(int64_t hidden, int64_t inner, ArenaCursor& arena) {
  return {.gate_up = arena.packed(2 * inner, hidden), .down = arena.packed(hidden, inner)};
}

MoeWeights place_moe(const DenseConfig& config, ArenaCursor& arena) {
  const int64_t hidden = config.hidden;
  MoeWeights moe;
  moe.router = arena.floats(int64_t{config.moe.experts} * hidden);
  if (config.moe.selection_bias) moe.selection_bias = arena.floats(config.moe.experts);
  for (int32_t expert = 0; expert < config.moe.experts; ++expert) {
    moe.experts.push_back(place_mlp(hidden, config.moe.intermediate, arena));
  }
  if (config.moe.shared > 0) moe.shared = place_mlp(hidden, config.shared_width(), arena);
  return moe;
}

LayerWeights place_layer(const DenseConfig& config, int32_t index, ArenaCursor& arena) {
  const int64_t hidden = config.hidden;
  const int64_t inner = config.intermediate;
  LayerWeights layer;
  layer.attention_norm = arena.floats(hidden);
  layer.qkv = arena.packed(config.qkv_width(), hidden);
  if (config.qkv_bias) layer.qkv_bias = arena.floats(config.qkv_width());
  if (config.qk_norm) {
    layer.q_norm = arena.floats(config.head_dim);
    layer.k_norm = arena.floats(config.head_dim);
  }
  layer.o = arena.packed(hidden, config.q_width());
  if (config.o_bias) layer.o_bias = arena.floats(hidden);
  layer.mlp_norm = arena.floats(hidden);
  if (config.is_sparse(index)) {
    layer.moe = place_moe(config, arena);
    return layer;
  }
  layer.mlp = place_mlp(hidden, inner, arena);
  if (config.mlp_bias) layer.gate_up_bias = arena.floats(2 * inner);
  if (config.mlp_bias) layer.down_bias = arena.floats(hidden);
  return layer;
}

void place_weights(const DenseConfig& config, bool tied, ArenaCursor& arena, DenseWeights& out) {
  for (int32_t i = 0; i < config.layers; ++i) out.layers.push_back(place_layer(config, i, arena));
  out.final_norm = arena.floats(config.hidden);
  if (!tied) out.embedding = arena.rows(config.vocabulary, config.hidden);
  out.head = arena.packed(config.vocabulary, config.hidden);
}

// Fills the places one tensor after the other.
class Filler {
 public:
  Filler(const Checkpoint& checkpoint, const TensorMatch& match, device::ThreadPool& pool,
         DenseWeights& out)
      : config_(checkpoint.config()), tied_(match.tied), out_(out), converter_(checkpoint, pool) {}

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
    switch (tensor.expected.role) {
      case WeightRole::kEmbedding:
        if (!tied_) return matrix(source, out_.embedding, {.packed = false});
        return matrix(source, out_.head.data, {});
      case WeightRole::kHead:
        return matrix(source, out_.head.data, {});
      case WeightRole::kFinalNorm:
        return vector(source, out_.final_norm);
      case WeightRole::kRopeFactors:
        return rope_factors(source);
      case WeightRole::kAttentionNorm:
        return vector(source, layer.attention_norm);
      case WeightRole::kQ:
        return matrix(source, layer.qkv.data, {.interleaved_group = group});
      case WeightRole::kK:
        return matrix(source, layer.qkv.data, {.row_begin = q, .interleaved_group = group});
      case WeightRole::kV:
        return matrix(source, layer.qkv.data, {.row_begin = q + kv});
      case WeightRole::kO:
        return matrix(source, layer.o.data, {});
      case WeightRole::kQBias:
        return vector(source, layer.qkv_bias, group);
      case WeightRole::kKBias:
        return vector(source, layer.qkv_bias + q, group);
      case WeightRole::kVBias:
        return vector(source, layer.qkv_bias + q + kv);
      case WeightRole::kOBias:
        return vector(source, layer.o_bias);
      case WeightRole::kQNorm:
        return vector(source, layer.q_norm, group);
      case WeightRole::kKNorm:
        return vector(source, layer.k_norm, group);
      case WeightRole::kMlpNorm:
        return vector(source, layer.mlp_norm);
      case WeightRole::kGate:
        return matrix(source, layer.mlp.gate_up.data, {});
      case WeightRole::kUp:
        return matrix(source, layer.mlp.gate_up.data, {.row_begin = inner});
      case WeightRole::kDown:
        return matrix(source, layer.mlp.down.data, {});
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
        return matrix(source, expert.gate_up.data, {});
      case WeightRole::kExpertUp:
        return matrix(source, expert.gate_up.data, {.row_begin = config_.moe.intermediate});
      case WeightRole::kExpertDown:
        return matrix(source, expert.down.data, {});
      case WeightRole::kSharedGate:
        return matrix(source, moe.shared.gate_up.data, {});
      case WeightRole::kSharedUp:
        return matrix(source, moe.shared.gate_up.data, {.row_begin = config_.shared_width()});
      case WeightRole::kSharedDown:
        return matrix(source, moe.shared.down.data, {});
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

  const DenseConfig& config_;
  const bool tied_;
  DenseWeights& out_;
  TensorConverter converter_;
};

}  // namespace

uint64_t arena_bytes(const DenseConfig& config, const TensorMatch& match) {
  DenseWeights unused;
  ArenaCursor measure(nullptr);
  place_weights(config, match.tied, measure, unused);
  return measure.used();
}

base::Result<DenseWeights> load_dense_weights(const Checkpoint& checkpoint,
                                              const TensorMatch& match, device::ThreadPool& pool,
                                              const ProgressFn& progress) {
  const DenseConfig& config = checkpoint.config();
  DenseWeights out;
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
