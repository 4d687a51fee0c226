#include <algorithm>

#include "kernels/vector/drivers.h"

namespace bulkhead::kernels::vector {
namespace {

// A hand-out costs some 100 ns: an item is at least this many elements.
constexpr int64_t kItemElements = 8192;

// Calls body(row) for every row, several rows per item where they are short.
template <typename Body>
void for_each_row(device::ThreadPool& pool, int64_t rows, int64_t row_elements, Body body) {
  if (rows <= 0) return;
  const int64_t per_item = std::max<int64_t>(1, kItemElements / std::max<int64_t>(1, row_elements));
  const int64_t items = (rows + per_item - 1) / per_item;
  pool.run(static_cast<size_t>(items), [&](size_t item, unsigned) {
    const int64_t begin = static_cast<int64_t>(item) * per_item;
    const int64_t end = std::min(rows, begin + per_item);
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

}  // namespace

void rms_norm(const VectorOps& ops, const RmsNormArgs& args, device::ThreadPool& pool) {
  for_each_row(pool, args.rows, args.width, [&](int64_t row) {
    ops.rms_norm(args.x + row * args.x_stride, args.weight, args.eps,
                 args.out + row * args.out_stride, args.width);
  });
}

void rope(const VectorOps& ops, const RopeArgs& args, device::ThreadPool& pool) {
  for_each_row(pool, args.rows, int64_t{args.heads} * args.head_dim, [&](int64_t row) {
    for (int32_t head = 0; head < args.heads; ++head) {
      ops.rope(args.x + row * args.x_stride + int64_t{head} * args.head_dim,
               args.cos + row * args.half, args.sin + row * args.half, args.half);
    }
  });
}

void swiglu(const VectorOps& ops, const SwigluArgs& args, device::ThreadPool& pool) {
  for_each_row(pool, args.rows, args.width, [&](int64_t row) {
    ops.swiglu(args.gate + row * args.stride, args.up + row * args.stride,
               args.out + row * args.out_stride, args.width);
  });
}

}  // namespace bulkhead::kernels::vector
