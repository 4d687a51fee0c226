// Any bytes as a GGUF file: metadata, tensor table, configuration and vocabulary. A file that is
// accepted must hold every tensor it lists, and token ids must be inside the vocabulary.
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/block_formats.h"
#include "model/families/family.h"
#include "model/gguf.h"
#include "model/gguf_text.h"
#include "model/model_tensors.h"

namespace {

using namespace bulkhead::model;

void read_tensor(const ByteSource& source, const TensorInfo& tensor) {
  BH_CHECK(tensor.offset <= source.size() && tensor.bytes <= source.size() - tensor.offset,
           "a tensor outside its file");
  std::vector<std::byte> bytes(tensor.bytes);
  BH_CHECK(source.read(tensor.offset, bytes).ok(), "a tensor that cannot be read");
  std::vector<float> values(tensor.elements);
  decode_elements(tensor.type, bytes, values);
}

void read_facts(GgufFile& file) {
  constexpr int32_t kLayersRead = 8;
  for (const Family* family : families()) {
    if (family->from_gguf == nullptr) continue;
    const auto config = family->from_gguf(file);
    if (!config.ok() || config->layers > kLayersRead) continue;
    BH_CHECK(config->heads % config->kv_heads == 0 && config->head_dim % 2 == 0, "odd heads");
    BH_CHECK(!expected_tensors(*config, CheckpointFormat::kGguf).empty(), "a model of nothing");
  }
  TextSource text;
  GenerationDefaults generation;
  if (!take_gguf_text(file.metadata, text, generation).ok()) return;
  const auto vocabulary = static_cast<int64_t>(text.gguf->tokens.size());
  BH_CHECK(text.gguf->types.size() == text.gguf->tokens.size(), "types for every token");
  for (const int32_t id : generation.eos_ids) BH_CHECK(id >= 0 && id < vocabulary, "an end id");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto source = memory_source("input", std::as_bytes(std::span(data, size)));
  auto file = read_gguf(*source, 0);
  if (!file.ok()) return 0;
  for (const TensorInfo& tensor : file->tensors) read_tensor(*source, tensor);
  read_facts(*file);
  return 0;
}
