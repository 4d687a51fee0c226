#include "kernels/layer_norm.h"

#include <cmath>

namespace bulkhead::kernels {

void layer_norm(const LayerNormArgs& args, device::ThreadPool& pool) {
  const auto width = static_cast<double>(args.width);
  pool.run(static_cast<size_t>(args.rows), [&](size_t row, unsigned) {
    const float* x = args.x + static_cast<int64_t>(row) * args.x_stride;
    float* out = args.out + static_cast<int64_t>(row) * args.out_stride;
    double sum = 0.0;
    for (int64_t i = 0; i < args.width; ++i) sum += static_cast<double>(x[i]);
    const double mean = sum / width;
    double squares = 0.0;
    for (int64_t i = 0; i < args.width; ++i) {
      const double off = static_cast<double>(x[i]) - mean;
      squares += off * off;
    }
    const double inverse = 1.0 / std::sqrt(squares / width + static_cast<double>(args.eps));
    for (int64_t i = 0; i < args.width; ++i) {
      const double normal = (static_cast<double>(x[i]) - mean) * inverse;
      out[i] = static_cast<float>(normal * static_cast<double>(args.weight[i]) +
                                  static_cast<double>(args.bias[i]));
    }
  });
}

}  // namespace bulkhead::kernels
