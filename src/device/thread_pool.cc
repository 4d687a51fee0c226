#include "device/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "device/buffer.h"

namespace bulkhead::device {
namespace {

// A park and its wake cost 20-40 us: spin for several times that before giving the CPU back.
constexpr std::chrono::microseconds kSpinBeforePark{200};
constexpr int kPausesPerClockRead = 64;
constexpr int kPausesBeforeYield = 2000;

// The gate is one word: run number << 32 | open << 31 | workers inside.
constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kInside = kOpen - 1;
uint64_t run_number(uint64_t gate) { return gate >> 32; }

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void pin_current_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Refused pinning costs speed only.
  ::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set);
}

}  // namespace

struct ThreadPool::State {
  // Written by the caller before the gate opens, read by workers that entered it.
  Body body = nullptr;
  void* context = nullptr;
  size_t items = 0;

  alignas(64) std::atomic<size_t> next{0};
  alignas(64) std::atomic<uint64_t> gate{0};
  alignas(64) std::atomic<unsigned> parked{0};
  std::atomic<bool> stopping{false};

  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Buffer> scratch;
  std::vector<std::thread> helpers;

  void work(unsigned worker) {
    for (;;) {
      const size_t item = next.fetch_add(1, std::memory_order_relaxed);
      if (item >= items) return;
      body(context, item, worker);
    }
  }

  // Waits for a run newer than `seen`; spins, then parks. False when the pool stops.
  bool wait_for_run(uint64_t seen) {
    const auto fresh = [this, seen] {
      return run_number(gate.load(std::memory_order_seq_cst)) != seen ||
             stopping.load(std::memory_order_seq_cst);
    };
    const auto give_up = std::chrono::steady_clock::now() + kSpinBeforePark;
    while (!fresh()) {
      for (int i = 0; i < kPausesPerClockRead && !fresh(); ++i) _mm_pause();
      if (std::chrono::steady_clock::now() < give_up) continue;
      std::unique_lock lock(mutex);
      // Announced before the last look: the caller opens the gate first and reads `parked` after,
      // so one of the two sees the other.
      parked.fetch_add(1, std::memory_order_seq_cst);
      wake.wait(lock, fresh);
      parked.fetch_sub(1, std::memory_order_seq_cst);
    }
    return !stopping.load(std::memory_order_seq_cst);
  }

  void helper(unsigned worker) {
    uint64_t seen = 0;
    while (wait_for_run(seen)) {
      uint64_t word = gate.load(std::memory_order_acquire);
      seen = run_number(word);
      // Only an open gate is entered: a helper that comes late finds it closed and takes no item.
      bool inside = false;
      while (!inside && (word & kOpen) != 0 && run_number(word) == seen) {
        inside = gate.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel);
      }
      if (!inside) continue;
      work(worker);
      gate.fetch_sub(1, std::memory_order_release);
    }
  }
};

ThreadPool::ThreadPool(ThreadPoolOptions options) : state_(std::make_unique<State>()) {
  const unsigned threads = std::max(1u, options.threads);
  for (unsigned i = 0; i < threads; ++i) {
    base::Result<Buffer> buffer = Buffer::allocate(options.scratch_bytes);
    BH_CHECK(buffer.ok(), "no memory for the scratch of a worker");
    state_->scratch.push_back(std::move(buffer).value());
  }
  const std::vector<int> cpus = options.pin ? allowed_cpus() : std::vector<int>{};
  for (unsigned worker = 1; worker < threads; ++worker) {
    // Worker 0 is the caller's thread, which is not ours to pin; it keeps the first CPU to itself.
    const int cpu = cpus.empty() ? -1 : cpus[worker % cpus.size()];
    state_->helpers.emplace_back([state = state_.get(), worker, cpu] {
      if (cpu >= 0) pin_current_thread(cpu);
      state->helper(worker);
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping.store(true, std::memory_order_seq_cst);
  }
  state_->wake.notify_all();
  for (std::thread& helper : state_->helpers) helper.join();
}

unsigned ThreadPool::threads() const { return static_cast<unsigned>(state_->scratch.size()); }

std::span<std::byte> ThreadPool::scratch(unsigned worker) {
  Buffer& buffer = state_->scratch[worker];
  return {buffer.data(), buffer.size()};
}

void ThreadPool::run_erased(size_t items, Body body, void* context) {
  State& s = *state_;
  if (items <= 1 || s.helpers.empty()) {
    for (size_t item = 0; item < items; ++item) body(context, item, 0);
    return;
  }
  s.body = body;
  s.context = context;
  s.items = items;
  s.next.store(0, std::memory_order_relaxed);
  const uint64_t run = run_number(s.gate.load(std::memory_order_relaxed)) + 1;
  s.gate.store((run << 32) | kOpen, std::memory_order_seq_cst);
  if (s.parked.load(std::memory_order_seq_cst) > 0) {
    const std::lock_guard lock(s.mutex);
    s.wake.notify_all();
  }
  s.work(0);
  s.gate.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spins = 0; (s.gate.load(std::memory_order_acquire) & kInside) != 0; ++spins) {
    // A helper may have lost its CPU inside the last item.
    if (spins < kPausesBeforeYield) {
      _mm_pause();
    } else {
      ::sched_yield();
    }
  }
}

}  // namespace bulkhead::device
