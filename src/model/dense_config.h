// What a dense decoder-only model is, whatever file it came from: the one description that the
// expected tensors, the arena and the forward pass are derived from.
//
// Threads: plain values.
// Invariants (established by the family that fills it): every dimension is positive and within
// the limits below, heads is a multiple of kv_heads, head_dim is even.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  // The file carries one divisor per frequency (GGUF: rope_freqs.weight), after `scaling`.
  bool factors_in_file = false;
};

// The head_dim/2 inverse frequencies in FP32: angle = position * frequency. factors_in_file is the
// caller's to apply.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int32_t head_dim);

// What a dimension of a configuration may be at most; products of two stay far inside 64 bits.
inline constexpr int32_t kLayersMax = 1024;
inline constexpr int32_t kHeadsMax = 4096;
inline constexpr int32_t kHeadDimMax = 1024;
inline constexpr int32_t kWidthMax = 1 << 20;  // hidden, intermediate
inline constexpr int32_t kVocabularyMax = 1 << 24;
inline constexpr int32_t kContextMax = 1 << 27;  // tokens

// Whether the output head is the embedding table.
enum class TieRule {
  kTied,        // declared: either tensor serves for both; both with different values: not tied
  kUntied,      // declared: both tensors must be there
  kByPresence,  // undeclared (GGUF): tied exactly when the head is absent
};

struct DenseConfig {
  std::string family;  // "llama", "qwen2", "qwen3"
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t intermediate = 0;
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

  int64_t q_width() const { return int64_t{heads} * head_dim; }
  int64_t kv_width() const { return int64_t{kv_heads} * head_dim; }
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

}  // namespace bulkhead::model
