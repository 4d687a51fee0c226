// Turns stored elements (F32, F16, BF16 and GGUF's quantised blocks) into floats.
//
// Threads: pure functions.
// Invariant: the result equals the format's definition in FP32, operation by operation and bit for
// bit (scale * code, then + or - the minimum); every bit pattern of a block is valid input, and a
// non-finite scale gives non-finite values for the caller to refuse.
#pragma once

#include <cstddef>
#include <span>

#include "model/tensor.h"

namespace bulkhead::model {

// Decodes out.size() elements from `source`, which holds exactly their bytes. `type` is a weight
// type and out.size() a multiple of its unit's elements.
void decode_elements(TensorType type, std::span<const std::byte> source, std::span<float> out);

}  // namespace bulkhead::model
