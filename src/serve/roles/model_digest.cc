#include "serve/roles/model_digest.h"

#include <openssl/sha.h>

#include <algorithm>
#include <string>
#include <vector>

#include "wire/bytes.h"

namespace bulkhead::serve::roles {
namespace {

// Of each norm: no format quantises them, and no two models share them.
constexpr uint64_t kNormBytes = 256;

void put_shape(const model::ModelConfig& config, wire::ByteWriter& out) {
  out.text(config.family);
  for (const int32_t number :
       {config.layers, config.hidden, config.heads, config.kv_heads, config.head_dim,
        config.rotary_dim, config.intermediate, config.vocabulary, config.context}) {
    out.put(number);
  }
}

void put_tokenizer(const model::TextSource& text, wire::ByteWriter& out) {
  out.text(text.tokenizer_json.value_or(""));
  out.text(text.tiktoken.value_or(""));
  if (!text.gguf) return;
  for (const std::string& token : text.gguf->tokens) out.text(token);
  for (const std::string& merge : text.gguf->merges) out.text(merge);
}

}  // namespace

base::Result<std::array<uint8_t, 32>> model_digest(const model::Checkpoint& checkpoint) {
  std::vector<std::byte> text;
  wire::ByteWriter out(text);
  put_shape(checkpoint.config(), out);
  put_tokenizer(checkpoint.text(), out);
  std::vector<const model::TensorInfo*> norms;
  norms.reserve(checkpoint.tensors().size());
  for (const model::TensorInfo& tensor : checkpoint.tensors()) {
    const bool is_norm = tensor.name.find("norm") != std::string::npos;
    if (is_norm && tensor.shape.size() == 1 && !tensor.quantised) norms.push_back(&tensor);
  }
  std::sort(norms.begin(), norms.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  std::vector<std::byte> bytes;
  for (const model::TensorInfo* norm : norms) {
    bytes.resize(std::min(norm->bytes, kNormBytes));
    BH_TRY(checkpoint.read(*norm, 0, bytes));
    out.text(norm->name);
    out.bytes(bytes);
  }
  std::array<uint8_t, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace bulkhead::serve::roles
