// Checkpoints made by tests: small files with every part under the test's control.
//
// Threads: one test at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bulkhead::model::testing {

// The committed data, from BULKHEAD_SOURCE_DIR (ctest sets it) or the working directory.
std::filesystem::path golden_directory();
std::filesystem::path source_directory();
// The model that `make serve` and `make test` fetch; it may be absent.
std::filesystem::path smollm2_path();

// A directory of its own that goes away with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view name, std::string_view bytes) const;
  std::string read(std::string_view name) const;
  // Overwrites one byte in place.
  void patch(std::string_view name, size_t at, char byte) const;

 private:
  std::filesystem::path path_;
};

struct FileTensor {
  std::string name;
  std::string type;  // "F32", "BF16", ...
  std::vector<uint64_t> shape;
  std::string data;
};

// A safetensors file of the tensors in their order; `header` replaces the true header when given.
std::string safetensors_bytes(const std::vector<FileTensor>& tensors);
std::string safetensors_header(const std::vector<FileTensor>& tensors);
std::string safetensors_with_header(std::string_view header, std::string_view data);

// A one-layer llama (hidden 16, 2 heads of 8, 1 kv head, intermediate 32, vocabulary 20, untied)
// with seeded BF16 weights: its tensors, and its config.json.
std::vector<FileTensor> tiny_llama_tensors();
std::string tiny_llama_config();

// GGUF, value by value.
class GgufBuilder {
 public:
  GgufBuilder& u32(std::string_view key, uint32_t value);
  GgufBuilder& f32(std::string_view key, float value);
  GgufBuilder& boolean(std::string_view key, uint8_t value);
  GgufBuilder& text(std::string_view key, std::string_view value);
  GgufBuilder& texts(std::string_view key, const std::vector<std::string>& values);
  GgufBuilder& raw(std::string_view key, uint32_t type, std::string_view bytes);
  // dims fastest first, as the file has them; the offset follows the tensor before it.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                      std::string_view data);
  // The same with every field chosen by the test, and no data.
  GgufBuilder& raw_tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                          uint64_t offset);
  std::string bytes() const;

  // Numbers that replace the true ones in the preamble.
  std::map<std::string, uint64_t> preamble;
  uint64_t alignment = 32;

 private:
  uint64_t keys_ = 0;
  uint64_t tensors_ = 0;
  std::string key_bytes_;
  std::string tensor_bytes_;
  std::string data_;
};

// Little-endian bytes of a number; a GGUF string.
template <typename T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
std::string gguf_string(std::string_view text);

// The tiny llama as GGUF metadata and BF16 tensors (Q and K rows interleaved as the format wants);
// `down_q8_0` replaces the MLP's down matrix by 16 blocks of Q8_0.
GgufBuilder tiny_llama_gguf(std::string_view down_q8_0 = {});

}  // namespace bulkhead::model::testing
