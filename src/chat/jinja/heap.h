// Everything one render allocates, and the budget it is allowed.
//
// Threads: one heap per render (and one per compiled template, read-only after compile).
// Invariants: objects live until the heap dies, so values are plain pointers and reference cycles
// cannot leak; every allocation and every byte looked at is charged, so a render ends in bounded
// time and memory whatever the template does.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "chat/jinja/error.h"

namespace bulkhead::chat::jinja {

struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
};

struct HeapLimits {
  uint64_t steps = 0;
  uint64_t string_bytes = 0;  // any one string, and the output
};

class Heap {
 public:
  explicit Heap(HeapLimits limits) : limits_(limits) {}

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    charge_memory(sizeof(T) + kObjectOverheadBytes);
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

  // One statement, expression or loop turn.
  void charge_step() {
    if (++steps_ > limits_.steps) fail_limit("the chat template exceeds its step limit");
  }

  // `bytes` of text or values read or compared; 1 KiB counts as one step.
  void charge_work(uint64_t bytes) {
    work_bytes_ += bytes;
    if (work_bytes_ < kWorkBytesPerStep) return;
    steps_ += work_bytes_ / kWorkBytesPerStep;
    work_bytes_ %= kWorkBytesPerStep;
    if (steps_ > limits_.steps) fail_limit("the chat template exceeds its step limit");
  }

  // `bytes` about to be allocated. All of a render together may take a fixed multiple of the
  // largest string, because nothing is given back before its end.
  void charge_memory(uint64_t bytes) {
    charge_work(bytes);
    memory_bytes_ += bytes;
    if (memory_bytes_ / kMemoryPerStringLimit > limits_.string_bytes) {
      fail_limit("the chat template exceeds its memory limit");
    }
  }

  // `bytes` is the size a string is about to have.
  void check_string_size(uint64_t bytes) const {
    if (bytes > limits_.string_bytes) fail_limit("the chat template exceeds its output limit");
  }

 private:
  static constexpr uint64_t kObjectOverheadBytes = 24;  // allocator header and the owning pointer
  static constexpr uint64_t kWorkBytesPerStep = 1024;
  static constexpr uint64_t kMemoryPerStringLimit = 8;

  HeapLimits limits_;
  uint64_t steps_ = 0;
  uint64_t work_bytes_ = 0;
  uint64_t memory_bytes_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace bulkhead::chat::jinja
