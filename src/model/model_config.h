// What a decoder-only model is, whatever file it came from: the one description that the expected
// tensors, the arena and the forward pass are derived from.
//
// Threads: plain values.
// Invariants (established by the family that fills it): every dimension is positive and within
// the limits below, heads is a multiple of kv_heads, head_dim and rotary_dim are even.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/router.h"
#include "kv/layout.h"

namespace bulkhead::model {

// How the inverse frequencies of the rotary embedding are bent for long contexts.
enum class RopeScaling { kNone, kLinear, kLlama3, kYarn };
std::string_view to_string(RopeScaling scaling);

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  int64_t original_context = 0;  // tokens the model was trained on before scaling
  // llama3
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // yarn
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;           // whole dimensions as the ends of the ramp
  double attention_factor = 1.0;  // multiplies cos and sin
  double softmax_gain = 1.0;      // multiplies the softmax scale, where the family has it
  // The file carries one divisor per frequency (GGUF: rope_freqs.weight), after `scaling`.
  bool factors_in_file = false;
};

// The rotary_dim/2 inverse frequencies in FP32: angle = position * frequency. factors_in_file is
// the caller's to apply.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t rotary_dim);

// What a dimension of a configuration may be at most; products of two stay far inside 64 bits.
inline constexpr int32_t kLayersMax = 1024;
inline constexpr int32_t kHeadsMax = 4096;
inline constexpr int32_t kHeadDimMax = 1024;
inline constexpr int32_t kWidthMax = 1 << 20;  // hidden, intermediate
inline constexpr int32_t kExpertsMax = 4096;
inline constexpr int32_t kExpertsPerTokenMax = 64;
inline constexpr int32_t kVocabularyMax = 1 << 24;
inline constexpr int32_t kContextMax = 1 << 27;  // tokens

// Whether the output head is the embedding table.
enum class TieRule {
  kTied,        // declared: either tensor serves for both; both with different values: not tied
  kUntied,      // declared: both tensors must be there
  kByPresence,  // undeclared (GGUF): tied exactly when the head is absent
};

// Feed-forward layers made of experts, of which each token uses a few.
struct MoeConfig {
  int32_t experts = 0;       // 0: every layer is dense
  int32_t per_token = 0;     // at most experts
  int32_t intermediate = 0;  // of one expert
  int32_t shared = 0;  // width of the expert that every token uses, in experts' widths; 0: none
  std::vector<uint8_t> sparse_layers;  // [layers]: 1 where the layer has experts
  kernels::RouterScore score = kernels::RouterScore::kSoftmax;
  bool selection_bias = false;  // added for choosing, not for weighing
  bool normalise = false;       // the chosen weights sum to one, ahead of `scale`
  double scale = 1.0;
  int32_t groups = 1;       // divides experts; two experts a group at least where there are several
  int32_t groups_used = 1;  // of which experts are chosen
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all
// heads are made of one latent vector a token, and queries, where q_rank is not 0, of another.
struct MlaConfig {
  int32_t latent = 0;       // values of the latent vector; 0: grouped-query attention
  int32_t q_rank = 0;       // 0: queries straight from the hidden state
  int32_t nope = 0;         // of a head's query and key, those without position
  int32_t rope = 0;         // those with it; one such key serves all heads
  int32_t value = 0;        // of a head's value
  float norm_eps = 1e-6f;   // of the norms on the two vectors
  bool interleaved = true;  // the file pairs neighbours for RoPE
  double softmax_scale = 1.0;

  int64_t head_q() const { return int64_t{nope} + rope; }
  int64_t key() const { return int64_t{latent} + rope; }  // what the cache holds of a token
};

// The indexer of sparse attention (DeepSeek-V3.2, kernels/indexer.h).
struct IndexerConfig {
  int32_t heads = 0;     // 0: attention is dense
  int32_t head_dim = 0;  // the first MlaConfig::rope of them are rotated
  int32_t top_k = 0;
  bool interleaved = false;          // as MlaConfig's
  std::vector<uint8_t> full_layers;  // [layers]: 0 where the layer takes the choice of one before
};

struct ModelConfig {
  std::string family;  // "llama", "qwen2", "qwen3", "qwen3_moe", "glm4_moe", "deepseek_v3", ...
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;    // how many of a head's first dimensions RoPE turns; even
  int32_t intermediate = 0;  // of a dense layer
  // With latent attention kv_heads is 1 and head_dim what the cache holds of a token.
  MlaConfig mla;
  IndexerConfig indexer;
  MoeConfig moe;
  int32_t vocabulary = 0;
  int32_t context = 0;  // tokens
  float rms_eps = 1e-6f;
  RopeConfig rope;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMSNorm of every q and k head before RoPE
  TieRule tie = TieRule::kUntied;
  // The file keeps Q and K rows in interleaved-pair order (GGUF of the llama family): loading puts
  // them back into half-split order.
  bool qk_rows_interleaved = false;
  // Ahead of "model." and "lm_head." in the file's tensor names.
  std::string name_prefix;
  // Layers for next-token prediction that follow the model's own in the file, and tensors of other
  // towers, by the beginnings of their names: both are there and not read.
  int32_t prediction_layers = 0;
  std::vector<std::string> ignored_prefixes;

  bool is_latent() const { return mla.latent > 0; }
  bool has_indexer(int32_t layer) const {
    return indexer.heads > 0 && indexer.full_layers[static_cast<size_t>(layer)] != 0;
  }
  bool is_sparse(int32_t layer) const {
    return moe.experts > 0 && moe.sparse_layers[static_cast<size_t>(layer)] != 0;
  }
  int64_t shared_width() const { return int64_t{moe.shared} * moe.intermediate; }
  int64_t q_width() const { return int64_t{heads} * head_dim; }
  int64_t kv_width() const { return int64_t{kv_heads} * head_dim; }
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

// How a cache for this model is laid out.
kv::PageLayout cache_layout(const ModelConfig& config, int32_t page_tokens, kv::PageFormat format);

}  // namespace bulkhead::model
