#include "device/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define BH_SANITIZER_OWNS_NEW
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define BH_SANITIZER_OWNS_NEW
#endif

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

#ifndef BH_SANITIZER_OWNS_NEW
// Counts every allocation of this test program.
void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace bulkhead::device {
namespace {

TEST(ThreadPool, RunsEveryItemExactlyOnce) {
  for (const unsigned threads : {1u, 2u, 3u, 7u}) {
    ThreadPool pool({.threads = threads, .scratch_bytes = 4096});
    for (const size_t items : {size_t{0}, size_t{1}, size_t{2}, size_t{5}, size_t{1000}}) {
      std::vector<std::atomic<int>> counts(items);
      pool.run(items, [&](size_t item, unsigned worker) {
        EXPECT_LT(worker, threads);
        counts[item].fetch_add(1, std::memory_order_relaxed);
      });
      for (const std::atomic<int>& count : counts) ASSERT_EQ(count.load(), 1);
    }
  }
}

// Plain writes of one run are read by other workers in the next: run() orders them.
TEST(ThreadPool, ARunSeesWhatTheRunBeforeItWrote) {
  ThreadPool pool({.threads = 3, .scratch_bytes = 4096});
  std::vector<uint64_t> values(64, 0);
  std::vector<uint64_t> next(64, 0);
  constexpr uint64_t kRounds = 3000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    pool.run(values.size(),
             [&](size_t item, unsigned) { next[item] = values[(item + 1) % values.size()] + 1; });
    values.swap(next);
  }
  for (const uint64_t value : values) ASSERT_EQ(value, kRounds);
}

TEST(ThreadPool, HelpersComeBackAfterTheyHaveParked) {
  ThreadPool pool({.threads = 2, .scratch_bytes = 4096});
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    // Each item waits for the other, so both workers must take part.
    std::atomic<int> arrived{0};
    pool.run(2, [&](size_t, unsigned) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPool, ScratchIsAlignedAndPrivateToItsWorker) {
  ThreadPool pool({.threads = 3, .scratch_bytes = 10000});
  EXPECT_EQ(pool.threads(), 3u);
  std::atomic<int> wrong{0};
  pool.run(300, [&](size_t item, unsigned worker) {
    std::span<std::byte> scratch = pool.scratch(worker);
    if (scratch.size() != 10000) wrong.fetch_add(1);
    if (reinterpret_cast<uintptr_t>(scratch.data()) % 64 != 0) wrong.fetch_add(1);
    const auto mark = static_cast<std::byte>(item & 0xff);
    for (std::byte& byte : scratch) byte = mark;
    for (const std::byte byte : scratch) {
      if (byte != mark) wrong.fetch_add(1);
    }
  });
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, RunAllocatesNothing) {
#ifdef BH_SANITIZER_OWNS_NEW
  GTEST_SKIP() << "NOT RUN: a sanitizer has its own operator new";
#endif
  ThreadPool pool({.threads = 2, .scratch_bytes = 4096});
  std::atomic<uint64_t> sum{0};
  const uint64_t before = allocations.load();
  for (int round = 0; round < 100; ++round) {
    pool.run(16, [&](size_t item, unsigned) { sum.fetch_add(item, std::memory_order_relaxed); });
  }
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(sum.load(), 100u * 120u);
}

}  // namespace
}  // namespace bulkhead::device
