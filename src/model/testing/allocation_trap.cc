#include "model/testing/allocation_trap.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace bulkhead::model::testing {
namespace {

std::atomic<bool> armed{false};
std::atomic<int> calls{0};

[[maybe_unused]] void* allocate(size_t bytes, size_t alignment) {
  if (armed.load(std::memory_order_relaxed)) calls.fetch_add(1, std::memory_order_relaxed);
  const size_t size = (bytes + alignment) / alignment * alignment;
  void* place = alignment <= alignof(std::max_align_t) ? std::malloc(size)
                                                       : std::aligned_alloc(alignment, size);
  if (place == nullptr) std::abort();
  return place;
}

}  // namespace

AllocationTrap::AllocationTrap() {
  calls = 0;
  armed = true;
}
AllocationTrap::~AllocationTrap() { armed = false; }
int AllocationTrap::count() const { return calls; }

}  // namespace bulkhead::model::testing

// The thread sanitizer brings operators of its own, which do not stand aside for others: under it
// nothing is counted.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BULKHEAD_KEEPS_OPERATOR_NEW
#endif
#endif
#ifndef BULKHEAD_KEEPS_OPERATOR_NEW

void* operator new(size_t bytes) { return bulkhead::model::testing::allocate(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return bulkhead::model::testing::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* place) noexcept { std::free(place); }
void operator delete(void* place, size_t) noexcept { std::free(place); }
void operator delete(void* place, std::align_val_t) noexcept { std::free(place); }
void operator delete(void* place, size_t, std::align_val_t) noexcept { std::free(place); }

#endif
