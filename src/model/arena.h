// Hands out one stretch of memory front to back. Run once without memory to learn the size, once
// with it to get the pointers: both walks are the same code.
//
// Threads: one at a time. Invariant: every piece is 64-byte aligned if the stretch is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_weights.h"

namespace bulkhead::model {

class ArenaCursor {
 public:
  // Null: measures only, and every pointer that is handed out is null.
  explicit ArenaCursor(std::byte* base) : base_(base) {}

  size_t used() const { return used_; }

  template <typename T>
  T* take(int64_t count) {
    return take_bytes<T>(static_cast<size_t>(count) * sizeof(T));
  }
  kernels::PackedWeights packed(int64_t n, int64_t k, kernels::WeightFormat format) {
    return {take_bytes<const std::byte>(kernels::packed_bytes(format, n, k)), n, k, format};
  }

 private:
  template <typename T>
  T* take_bytes(size_t bytes) {
    constexpr size_t kAlign = 64;
    T* place = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
    return place;
  }

  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace bulkhead::model
