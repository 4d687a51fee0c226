#include "kernels/bench/peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

namespace bulkhead::kernels {
namespace {

// Some 0.3 ms of multiply-adds per worker, cut so that all workers take part to the end.
constexpr int64_t kRounds = 20000;
constexpr int64_t kTileRounds = 5000;
constexpr size_t kItemsPerWorker = 8;
constexpr int64_t kReadPiece = 64 << 10;  // floats
constexpr int64_t kL2Floats = 64 << 10;
constexpr int kL2Passes = 64;

// Keeps a loop whose result nobody needs.
std::atomic<float> sink;

}  // namespace

double bench_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Spread spread_of(std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  const size_t last = samples.size() - 1;
  return {samples[last / 2], samples[last / 10], samples[last - last / 10]};
}

double fma_rate(const VectorOps& ops, device::ThreadPool& pool) {
  const size_t items = kItemsPerWorker * pool.threads();
  const double begin = bench_seconds();
  pool.run(items, [&](size_t, unsigned) {
    sink.store(ops.fma_rounds(kRounds), std::memory_order_relaxed);
  });
  const double flops = static_cast<double>(items) * static_cast<double>(kRounds * kFmaRoundFlops);
  return flops / (bench_seconds() - begin);
}

double tile_rate(const TileOps& ops, device::ThreadPool& pool) {
  const size_t items = kItemsPerWorker * pool.threads();
  const double begin = bench_seconds();
  pool.run(items, [&](size_t, unsigned) { ops.tile_rounds(kTileRounds); });
  const double flops =
      static_cast<double>(items) * static_cast<double>(kTileRounds * kTileRoundFlops);
  return flops / (bench_seconds() - begin);
}

double read_rate(const VectorOps& ops, std::span<const float> memory, device::ThreadPool& pool) {
  const size_t items = memory.size() / kReadPiece;
  const double begin = bench_seconds();
  pool.run(items, [&](size_t item, unsigned) {
    sink.store(ops.read_floats(memory.data() + item * kReadPiece, kReadPiece),
               std::memory_order_relaxed);
  });
  return static_cast<double>(items * kReadPiece * sizeof(float)) / (bench_seconds() - begin);
}

double l2_rate(const VectorOps& ops, std::span<const float> memory, device::ThreadPool& pool) {
  const size_t workers = std::min<size_t>(pool.threads(), memory.size() / kL2Floats);
  const double begin = bench_seconds();
  pool.run(workers, [&](size_t item, unsigned) {
    for (int pass = 0; pass < kL2Passes; ++pass) {
      sink.store(ops.read_floats(memory.data() + item * kL2Floats, kL2Floats),
                 std::memory_order_relaxed);
    }
  });
  const double bytes = static_cast<double>(workers) * kL2Passes * kL2Floats * sizeof(float);
  return bytes / (bench_seconds() - begin);
}

}  // namespace bulkhead::kernels
