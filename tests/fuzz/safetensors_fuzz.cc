// Any bytes as a safetensors file and as a shard index. A file that is accepted must hold every
// tensor it lists, where it says, and its numbers must decode; so must the weights it folds to
// under each quantised format.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/block_formats.h"
#include "model/formats/decode.h"
#include "model/formats/fold.h"
#include "model/safetensors.h"

namespace {

using bulkhead::model::ByteSource;
using bulkhead::model::TensorFiles;
using bulkhead::model::TensorInfo;
using bulkhead::model::formats::QuantConfig;
using bulkhead::model::formats::QuantMethod;

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

// Small blocks and groups, which a small input can fill.
std::array<QuantConfig, 4> quant_configs() {
  std::array<QuantConfig, 4> out;
  out[0].method = QuantMethod::kFp8;
  out[0].block_rows = 2;
  out[0].block_columns = 3;
  out[1].method = QuantMethod::kCompressedTensors;
  out[1].groups = {{.columns = 8}, {.columns = 0}, {.columns = 8, .symmetric = false}};
  out[2].method = QuantMethod::kAwq;
  out[2].groups = {{.columns = 8, .symmetric = false}};
  out[3].method = QuantMethod::kGptq;
  out[3].groups = {{.columns = 8, .symmetric = false}};
  out[3].zeros_less_one = true;
  return out;
}

void fold_and_decode(const TensorFiles& files, const std::vector<TensorInfo>& stored,
                     const QuantConfig& config) {
  const auto folded = bulkhead::model::formats::fold_tensors(stored, config, files);
  if (!folded.ok()) return;
  bulkhead::model::formats::DecodeWorkspace space;
  for (const TensorInfo& tensor : *folded) {
    if (tensor.quantised == nullptr) continue;
    uint64_t bytes = 0;
    for (const TensorInfo* part : parts_of(*tensor.quantised)) bytes += part->bytes;
    BH_CHECK(bytes == tensor.bytes, "parts that are not the whole");
    BH_CHECK(tensor.elements == tensor.shape[0] * tensor.shape[1], "a shape that disagrees");
    std::vector<float> values(tensor.elements);
    const bulkhead::model::formats::RowRange all = {.begin = 0,
                                                    .count = static_cast<int64_t>(tensor.shape[0])};
    const auto decoded =
        bulkhead::model::formats::decode_rows(files, tensor, all, space, std::span(values));
    if (!decoded.ok()) BH_CHECK(!decoded.error().message.empty(), "an error without a word");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> input(data, size);
  TensorFiles files;
  files.add(bulkhead::model::memory_source("input", std::as_bytes(input)));
  const ByteSource& source = files[0];
  const auto tensors = bulkhead::model::read_safetensors(source, 0);
  if (tensors.ok()) {
    uint64_t total = 0;
    for (const TensorInfo& tensor : *tensors) {
      read_tensor(source, tensor);
      total += tensor.bytes;
    }
    BH_CHECK(total <= size, "tensors that overlap");
    for (const QuantConfig& config : quant_configs()) fold_and_decode(files, *tensors, config);
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
