#include "serve/roles/model_digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>
#include <vector>

#include "wire/bytes.h"

namespace bulkhead::serve::roles {
namespace {

// Of each tensor, once in its middle and once at its end, where a quantised one has its scales: a
// checkpoint of a hundred thousand tensors is told from another in seconds.
constexpr uint64_t kSampleBytes = 128;

void put(double number, wire::ByteWriter& out) { out.put(std::bit_cast<uint64_t>(number)); }

void put_rope(const model::RopeConfig& rope, wire::ByteWriter& out) {
  out.put(rope.scaling);
  out.put(rope.original_context);
  for (const double number :
       {rope.theta, rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.beta_fast,
        rope.beta_slow, rope.attention_factor, rope.softmax_gain}) {
    put(number, out);
  }
  out.put(static_cast<uint8_t>(rope.truncate));
  out.put(static_cast<uint8_t>(rope.factors_in_file));
}

void put_latent(const model::ModelConfig& config, wire::ByteWriter& out) {
  const model::MlaConfig& mla = config.mla;
  for (const int32_t number : {mla.latent, mla.q_rank, mla.nope, mla.rope, mla.value}) {
    out.put(number);
  }
  out.put(mla.norm_eps);
  out.put(static_cast<uint8_t>(mla.interleaved));
  put(mla.softmax_scale, out);
  const model::IndexerConfig& indexer = config.indexer;
  for (const int32_t number : {indexer.heads, indexer.head_dim, indexer.top_k}) out.put(number);
  out.put(static_cast<uint8_t>(indexer.interleaved));
  out.count(indexer.full_layers.size());
  out.bytes(std::as_bytes(std::span(indexer.full_layers)));
}

void put_experts(const model::MoeConfig& moe, wire::ByteWriter& out) {
  for (const int32_t number :
       {moe.experts, moe.per_token, moe.intermediate, moe.shared, moe.groups, moe.groups_used}) {
    out.put(number);
  }
  out.count(moe.sparse_layers.size());
  out.bytes(std::as_bytes(std::span(moe.sparse_layers)));
  out.put(static_cast<uint8_t>(moe.score));
  out.put(static_cast<uint8_t>(moe.selection_bias));
  out.put(static_cast<uint8_t>(moe.normalise));
  put(moe.scale, out);
}

// Everything that decides what the weights compute.
void put_config(const model::ModelConfig& config, wire::ByteWriter& out) {
  out.text(config.family);
  for (const int32_t number :
       {config.layers, config.hidden, config.heads, config.kv_heads, config.head_dim,
        config.rotary_dim, config.intermediate, config.vocabulary, config.context}) {
    out.put(number);
  }
  out.put(config.rms_eps);
  for (const bool flag : {config.qkv_bias, config.o_bias, config.mlp_bias, config.qk_norm,
                          config.qk_rows_interleaved}) {
    out.put(static_cast<uint8_t>(flag));
  }
  out.put(static_cast<uint8_t>(config.tie));
  put_rope(config.rope, out);
  put_latent(config, out);
  put_experts(config.moe, out);
}

base::Status put_tensor(const model::Checkpoint& checkpoint, const model::TensorInfo& tensor,
                        wire::ByteWriter& out) {
  out.text(tensor.name);
  out.text(model::type_text(tensor));
  out.count(tensor.shape.size());
  for (const uint64_t length : tensor.shape) out.put(length);
  std::array<std::byte, kSampleBytes> bytes;
  const uint64_t count = std::min(tensor.bytes, kSampleBytes);
  for (const uint64_t begin : {(tensor.bytes - count) / 2, tensor.bytes - count}) {
    const auto sample = std::span(bytes).first(static_cast<size_t>(count));
    BH_TRY(checkpoint.read(tensor, begin, sample));
    out.bytes(sample);
  }
  return {};
}

void put_tokenizer(const model::TextSource& text, wire::ByteWriter& out) {
  out.text(text.tokenizer_json.value_or(""));
  out.text(text.tiktoken.value_or(""));
  if (!text.gguf) return;
  for (const std::string& token : text.gguf->tokens) out.text(token);
  for (const std::string& merge : text.gguf->merges) out.text(merge);
}

std::array<uint8_t, 32> sha256(std::span<const std::byte> text) {
  std::array<uint8_t, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

base::Result<std::string> weights_digest(const model::Checkpoint& checkpoint) {
  if (!checkpoint.origin().empty()) return checkpoint.origin();
  std::vector<std::byte> text;
  wire::ByteWriter out(text);
  std::vector<const model::TensorInfo*> tensors;
  tensors.reserve(checkpoint.tensors().size());
  for (const model::TensorInfo& tensor : checkpoint.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const model::TensorInfo* tensor : tensors) BH_TRY(put_tensor(checkpoint, *tensor, out));
  return fmt::format("{:02x}", fmt::join(sha256(text), ""));
}

base::Result<std::array<uint8_t, 32>> model_digest(const model::Checkpoint& checkpoint) {
  std::vector<std::byte> text;
  wire::ByteWriter out(text);
  put_config(checkpoint.config(), out);
  put_tokenizer(checkpoint.text(), out);
  BH_ASSIGN(const std::string weights, weights_digest(checkpoint));
  out.text(weights);
  return sha256(text);
}

}  // namespace bulkhead::serve::roles
