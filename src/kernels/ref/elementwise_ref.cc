#include <cmath>

#include "kernels/ref/ref.h"

namespace bulkhead::kernels::ref {
namespace {

// 16 running sums, one per residue of the index, then halved: the order every path uses.
float sum_of_squares(const float* x, int64_t width) {
  float lanes[16] = {};
  for (int64_t i = 0; i < width; ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace

void rms_norm(const RmsNormArgs& args, device::ThreadPool& pool) {
  pool.run(static_cast<size_t>(args.rows), [&](size_t item, unsigned) {
    const auto row = static_cast<int64_t>(item);
    const float* x = args.x + row * args.x_stride;
    float* out = args.out + row * args.out_stride;
    const float mean = sum_of_squares(x, args.width) / static_cast<float>(args.width);
    const float factor = 1.0f / std::sqrt(mean + args.eps);
    for (int64_t i = 0; i < args.width; ++i) out[i] = x[i] * factor * args.weight[i];
  });
}

void rope(const RopeArgs& args, device::ThreadPool& pool) {
  pool.run(static_cast<size_t>(args.rows), [&](size_t item, unsigned) {
    const auto row = static_cast<int64_t>(item);
    const float* cos = args.cos + row * args.half;
    const float* sin = args.sin + row * args.half;
    for (int32_t head = 0; head < args.heads; ++head) {
      float* x = args.x + row * args.x_stride + head * args.head_dim;
      for (int32_t i = 0; i < args.half; ++i) {
        const float a = x[i];
        const float b = x[i + args.half];
        x[i] = std::fma(a, cos[i], -(b * sin[i]));
        x[i + args.half] = std::fma(b, cos[i], a * sin[i]);
      }
    }
  });
}

void swiglu(const SwigluArgs& args, device::ThreadPool& pool) {
  pool.run(static_cast<size_t>(args.rows), [&](size_t item, unsigned) {
    const auto row = static_cast<int64_t>(item);
    const float* gate = args.gate + row * args.stride;
    const float* up = args.up + row * args.stride;
    float* out = args.out + row * args.out_stride;
    for (int64_t i = 0; i < args.width; ++i) {
      out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    }
  });
}

}  // namespace bulkhead::kernels::ref
