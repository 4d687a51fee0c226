// The one form of kv_write: rounding and scattering, the same on every path.
//
// Threads: one caller at a time, the one that owns the pool.
#pragma once

#include "kernels/attention.h"

namespace bulkhead::kernels {

void kv_write(const KvWriteArgs& args, device::ThreadPool& pool);

}  // namespace bulkhead::kernels
