// The one form of kv_write: rounding and scattering, the same on every path.
#pragma once

#include "kernels/attention.h"

namespace bulkhead::kernels {

void kv_write(const KvWriteArgs& args, device::ThreadPool& pool);

}  // namespace bulkhead::kernels
