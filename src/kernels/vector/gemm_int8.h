// Products whose activations are rounded to bytes first.
//
// Threads: as gemm.h says.
#pragma once

#include <span>

#include "device/thread_pool.h"
#include "kernels/gemm.h"
#include "kernels/simd/vector_ops.h"

namespace bulkhead::kernels::vector {

// All of them with activations in bytes.
void gemm_group_int8(const VectorOps& ops, std::span<const GemmArgs> group,
                     device::ThreadPool& pool);

// Calls body(products, in_bytes) for stretches of a group that go the same way.
template <typename Body>
void for_each_kind(std::span<const GemmArgs> group, Body body) {
  while (!group.empty()) {
    const bool in_bytes = multiplies_bytes(group.front());
    size_t count = 1;
    while (count < group.size() && multiplies_bytes(group[count]) == in_bytes) ++count;
    body(group.first(count), in_bytes);
    group = group.subspan(count);
  }
}

}  // namespace bulkhead::kernels::vector
