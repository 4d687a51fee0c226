// The weight files of a checkpoint, and the bytes of its tensors in them.
//
// Threads: immutable once filled; read() from any number of threads at once.
// Invariant: every tensor that is read lies inside its file (tensor.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/byte_source.h"
#include "model/tensor.h"

namespace bulkhead::model {

class TensorFiles {
 public:
  void add(std::unique_ptr<ByteSource> source) { sources_.push_back(std::move(source)); }

  size_t size() const { return sources_.size(); }
  const ByteSource& operator[](size_t index) const { return *sources_[index]; }
  // The name of the file a tensor (of a folded one: its codes) lies in, for messages.
  const std::string& name_of(const TensorInfo& tensor) const {
    return sources_[tensor.file]->name();
  }
  // Reads out.size() bytes of the tensor from byte `begin` of it; the bytes of a folded tensor are
  // those of its parts, one after the other.
  base::Status read(const TensorInfo& tensor, uint64_t begin, std::span<std::byte> out) const;

 private:
  base::Status read_parts(const QuantisedWeight& weight, uint64_t begin,
                          std::span<std::byte> out) const;

  std::vector<std::unique_ptr<ByteSource>> sources_;
};

}  // namespace bulkhead::model
