// Chooses the experts of every row and weighs them: a product with the router's FP32 matrix, a
// scoring function, a choice.
//
// One form for all ISA paths, in FP32 from end to end: which experts a token gets does not depend
// on the processor. Each logit is summed in 16 lanes, lane i over the columns i, i + 16, ..., and
// the lanes are joined pairwise; a row depends on itself only. Bound of a logit: |error| <= (width
// / 16 + 5) * 2^-24 * sum |x w|.
//
// Choice: the highest scores (plus selection bias) win, of equal ones the lower expert. With
// groups, a group counts as the sum of its two best, and only the best groups' experts may be
// chosen (DeepSeek-V3, arXiv 2412.19437, section 2.1.2). The experts of a row are different ones,
// whatever its values are; NaN counts as the lowest.
//
// Threads: one caller at a time, the one that owns the pool. Scratch: 36 bytes per expert and
// worker.
#pragma once

#include <cstdint>

#include "device/thread_pool.h"

namespace bulkhead::kernels {

enum class RouterScore { kSoftmax, kSigmoid };

struct RouterArgs {
  const float* x = nullptr;  // [rows][x_stride]
  int64_t x_stride = 0;
  int64_t rows = 0;
  int64_t width = 0;
  const float* weight = nullptr;  // [experts][width]
  const float* bias = nullptr;    // [experts], for the choice only; or null
  int32_t experts = 0;
  int32_t per_token = 0;  // at most experts, and at most the experts of groups_used groups
  int32_t groups = 1;     // divides experts
  int32_t groups_used = 1;
  RouterScore score = RouterScore::kSoftmax;
  bool normalise = false;  // the weights of a row sum to one, ahead of `scale`
  float scale = 1.0f;
  int32_t* ids = nullptr;    // [rows][per_token], ascending in a row
  float* weights = nullptr;  // [rows][per_token], of those
};

void route(const RouterArgs& args, device::ThreadPool& pool);

}  // namespace bulkhead::kernels
