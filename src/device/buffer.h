// Memory for weights, pages and step buffers: aligned, in 2 MiB pages where the system grants them,
// touched at construction.
//
// Threads: the buffer is owned by one thread; its bytes follow their owner's rules.
// Invariants: 64-byte aligned (2 MiB from 2 MiB on); zero-filled; never moves or grows.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace bulkhead::device {

class Buffer {
 public:
  // Errors: kResourceExhausted with the size asked for when the system has no such memory.
  static base::Result<Buffer> allocate(size_t bytes);

  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // The bytes as an array of T; T must be trivial.
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
};

}  // namespace bulkhead::device
