// Writes one safetensors file whose tensors are known beforehand, in any order and from many
// threads; the file appears under its name only when it is whole and on the disk.
//
// Threads: write() from any number of threads at once; everything else from one.
// Invariants: the header is written first and never changes, so that the file's bytes depend on the
// tensors alone. Until finish() the file is called NAME.partial, and is started anew by the next
// writer of that name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"

namespace bulkhead::model::write {

// A tensor of a file that is to be written.
struct StoredTensor {
  std::string name;
  TensorType type = TensorType::kBf16;
  std::vector<uint64_t> shape;

  uint64_t bytes() const;
};

// The file's first bytes: the header's length and the header, padded to whole words. Tensors lie
// behind it in their order, without holes.
std::string safetensors_preamble(std::span<const StoredTensor> tensors);

class SafetensorsWriter {
 public:
  // Makes NAME.partial at its full size. Errors: kIo.
  static base::Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                                std::span<const StoredTensor> tensors);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // Bytes of tensor number `tensor`, from its byte `begin` on.
  base::Status write(size_t tensor, uint64_t begin, std::span<const std::byte> bytes) const;
  // Waits until the disk has the file and gives it its name.
  base::Status finish();

 private:
  SafetensorsWriter() = default;

  std::filesystem::path path_;
  int file_ = -1;
  std::vector<uint64_t> offsets_;  // of each tensor in the file
  std::vector<uint64_t> sizes_;
};

// A small file, whole and on the disk before it has its name.
base::Status write_file_aside(const std::filesystem::path& path, std::string_view bytes);

}  // namespace bulkhead::model::write
