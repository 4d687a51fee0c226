// Any bytes as a safetensors file and as a shard index. A file that is accepted must hold every
// tensor it lists, where it says, and its numbers must decode.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/block_formats.h"
#include "model/safetensors.h"

namespace {

using bulkhead::model::ByteSource;
using bulkhead::model::TensorInfo;

void read_tensor(const ByteSource& source, const TensorInfo& tensor) {
  BH_CHECK(tensor.offset <= source.size() && tensor.bytes <= source.size() - tensor.offset,
           "a tensor outside its file");
  BH_CHECK(tensor.elements * unit_of(tensor.type).bytes == tensor.bytes, "a size that disagrees");
  std::vector<std::byte> bytes(tensor.bytes);
  BH_CHECK(source.read(tensor.offset, bytes).ok(), "a tensor that cannot be read");
  if (!is_weight_type(tensor.type)) return;
  std::vector<float> values(tensor.elements);
  bulkhead::model::decode_elements(tensor.type, bytes, values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> input(data, size);
  const auto source = bulkhead::model::memory_source("input", std::as_bytes(input));
  const auto tensors = bulkhead::model::read_safetensors(*source, 0);
  if (tensors.ok()) {
    uint64_t total = 0;
    for (const TensorInfo& tensor : *tensors) {
      read_tensor(*source, tensor);
      total += tensor.bytes;
    }
    BH_CHECK(total <= size, "tensors that overlap");
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = bulkhead::model::parse_shard_index("input", text);
  if (!index.ok()) return 0;
  for (const auto& [name, file] : index->tensors) {
    BH_CHECK(file < index->files.size(), "a tensor in no file");
  }
  for (const std::string& file : index->files) {
    BH_CHECK(file.find('/') == std::string::npos && file != "..", "a path that leaves");
  }
  return 0;
}
