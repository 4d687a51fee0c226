#include "model/testing/files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/rng.h"
#include "quant/bf16.h"

namespace bulkhead::model::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHidden = 16;
constexpr uint64_t kHeadDim = 8;
constexpr uint64_t kKvWidth = 8;
constexpr uint64_t kInner = 32;
constexpr uint64_t kVocabulary = 20;

std::string random_bf16(uint64_t elements, uint64_t seed) {
  base::Rng rng(seed);
  std::string out;
  for (uint64_t i = 0; i < elements; ++i) {
    const auto value = static_cast<float>(rng.unit() - 0.5);
    out += le(quant::float_to_bf16(value * 0.5f));
  }
  return out;
}

FileTensor random_tensor(std::string name, std::vector<uint64_t> shape) {
  uint64_t elements = 1;
  for (const uint64_t dim : shape) elements *= dim;
  std::string data = random_bf16(elements, std::hash<std::string>{}(name));
  return {std::move(name), "BF16", std::move(shape), std::move(data)};
}

}  // namespace

fs::path source_directory() {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");
  return root == nullptr ? fs::current_path() : fs::path(root);
}

fs::path golden_directory() { return source_directory() / "tests" / "golden"; }

fs::path smollm2_path() {
  return source_directory() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (fs::temp_directory_path() / "bulkhead_model_XXXXXX").string();
  BH_CHECK(::mkdtemp(pattern.data()) != nullptr, "a temporary directory");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void TemporaryDirectory::write(std::string_view name, std::string_view bytes) const {
  std::ofstream out(path_ / name, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  BH_CHECK(out.good(), "a test file is written");
}

void TemporaryDirectory::patch(std::string_view name, size_t at, char byte) const {
  std::fstream file(path_ / name, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
  file.flush();
  BH_CHECK(file.good(), "a byte of a test file is changed");
}

std::string TemporaryDirectory::read(std::string_view name) const {
  std::ifstream in(path_ / name, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string safetensors_header(const std::vector<FileTensor>& tensors) {
  std::string header = "{";
  size_t offset = 0;
  for (const FileTensor& tensor : tensors) {
    header += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.size() > 1 ? "," : "", tensor.name, tensor.type,
                          fmt::join(tensor.shape, ","), offset, offset + tensor.data.size());
    offset += tensor.data.size();
  }
  return header + "}";
}

std::string safetensors_with_header(std::string_view header, std::string_view data) {
  std::string out = le(static_cast<uint64_t>(header.size()));
  out += header;
  out += data;
  return out;
}

std::string safetensors_bytes(const std::vector<FileTensor>& tensors) {
  std::string data;
  for (const FileTensor& tensor : tensors) data += tensor.data;
  return safetensors_with_header(safetensors_header(tensors), data);
}

std::vector<FileTensor> tiny_llama_tensors() {
  const std::string layer = "model.layers.0.";
  return {
      random_tensor("model.embed_tokens.weight", {kVocabulary, kHidden}),
      random_tensor(layer + "input_layernorm.weight", {kHidden}),
      random_tensor(layer + "self_attn.q_proj.weight", {kHidden, kHidden}),
      random_tensor(layer + "self_attn.k_proj.weight", {kKvWidth, kHidden}),
      random_tensor(layer + "self_attn.v_proj.weight", {kKvWidth, kHidden}),
      random_tensor(layer + "self_attn.o_proj.weight", {kHidden, kHidden}),
      random_tensor(layer + "post_attention_layernorm.weight", {kHidden}),
      random_tensor(layer + "mlp.gate_proj.weight", {kInner, kHidden}),
      random_tensor(layer + "mlp.up_proj.weight", {kInner, kHidden}),
      random_tensor(layer + "mlp.down_proj.weight", {kHidden, kInner}),
      random_tensor("model.norm.weight", {kHidden}),
      random_tensor("lm_head.weight", {kVocabulary, kHidden}),
  };
}

std::string tiny_llama_config() {
  return R"({"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 1,
 "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32, "vocab_size": 20,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
 "tie_word_embeddings": false, "eos_token_id": 2})";
}

std::string gguf_string(std::string_view text) {
  return le(static_cast<uint64_t>(text.size())) + std::string(text);
}

GgufBuilder& GgufBuilder::raw(std::string_view key, uint32_t type, std::string_view bytes) {
  ++keys_;
  key_bytes_ += gguf_string(key) + le(type) + std::string(bytes);
  return *this;
}
GgufBuilder& GgufBuilder::u32(std::string_view key, uint32_t value) {
  return raw(key, 4, le(value));
}
GgufBuilder& GgufBuilder::f32(std::string_view key, float value) { return raw(key, 6, le(value)); }
GgufBuilder& GgufBuilder::boolean(std::string_view key, uint8_t value) {
  return raw(key, 7, le(value));
}
GgufBuilder& GgufBuilder::text(std::string_view key, std::string_view value) {
  return raw(key, 8, gguf_string(value));
}
GgufBuilder& GgufBuilder::texts(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = le(uint32_t{8}) + le(static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) bytes += gguf_string(value);
  return raw(key, 9, bytes);
}

GgufBuilder& GgufBuilder::raw_tensor(std::string_view name, const std::vector<uint64_t>& dims,
                                     uint32_t type, uint64_t offset) {
  ++tensors_;
  tensor_bytes_ += gguf_string(name) + le(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) tensor_bytes_ += le(dim);
  tensor_bytes_ += le(type) + le(offset);
  return *this;
}

GgufBuilder& GgufBuilder::tensor(std::string_view name, const std::vector<uint64_t>& dims,
                                 uint32_t type, std::string_view data) {
  data_.resize((data_.size() + alignment - 1) / alignment * alignment);
  raw_tensor(name, dims, type, data_.size());
  data_ += data;
  return *this;
}

std::string GgufBuilder::bytes() const {
  const auto number = [&](const char* name, uint64_t truth) {
    const auto found = preamble.find(name);
    return found == preamble.end() ? truth : found->second;
  };
  std::string out = "GGUF" + le(static_cast<uint32_t>(number("version", 3))) +
                    le(number("tensors", tensors_)) + le(number("keys", keys_)) + key_bytes_ +
                    tensor_bytes_;
  if (tensors_ > 0) out.resize((out.size() + alignment - 1) / alignment * alignment);
  return out + data_;
}

GgufBuilder tiny_llama_gguf(std::string_view down_q8_0) {
  std::vector<std::string> tokens;
  for (uint64_t i = 0; i < kVocabulary; ++i) tokens.push_back(fmt::format("t{}", i));
  GgufBuilder out;
  out.text("general.architecture", "llama")
      .u32("llama.block_count", 1)
      .u32("llama.context_length", 64)
      .u32("llama.embedding_length", kHidden)
      .u32("llama.feed_forward_length", kInner)
      .u32("llama.attention.head_count", 2)
      .u32("llama.attention.head_count_kv", 1)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .text("tokenizer.ggml.model", "gpt2")
      .texts("tokenizer.ggml.tokens", tokens)
      .u32("tokenizer.ggml.eos_token_id", 2);
  constexpr uint32_t kQ8_0 = 8;
  constexpr uint32_t kBf16 = 30;
  const std::vector<std::string> names = {
      "token_embd.weight",     "blk.0.attn_norm.weight", "blk.0.attn_q.weight",
      "blk.0.attn_k.weight",   "blk.0.attn_v.weight",    "blk.0.attn_output.weight",
      "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight",  "blk.0.ffn_up.weight",
      "blk.0.ffn_down.weight", "output_norm.weight",     "output.weight"};
  const std::vector<FileTensor> tensors = tiny_llama_tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<uint64_t> dims(tensors[i].shape.rbegin(), tensors[i].shape.rend());
    std::string data = tensors[i].data;
    if (i == 2 || i == 3) {
      // Row 2j of a head is row j of the half-split order, row 2j + 1 is row j + half.
      const size_t row_bytes = kHidden * 2;
      for (size_t r = 0; r < tensors[i].shape[0]; ++r) {
        const size_t in_head = r % kHeadDim;
        const size_t from = r - in_head + in_head / 2 + in_head % 2 * (kHeadDim / 2);
        data.replace(r * row_bytes, row_bytes, tensors[i].data, from * row_bytes, row_bytes);
      }
    }
    const bool replaced = names[i] == "blk.0.ffn_down.weight" && !down_q8_0.empty();
    out.tensor(names[i], dims, replaced ? kQ8_0 : kBf16, replaced ? down_q8_0 : data);
  }
  return out;
}

}  // namespace bulkhead::model::testing
