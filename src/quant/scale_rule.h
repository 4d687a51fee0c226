// How a quantiser finds the scale that a group of values shares.
//
// Threads: plain values.
#pragma once

#include <cstdint>

namespace bulkhead::quant {

enum class ScaleRule : uint8_t {
  kAmax,    // the largest magnitude becomes the largest code, as published checkpoints do
  kSearch,  // of that scale and others near it the one with the least squared error
};

}  // namespace bulkhead::quant
