// A fixed set of threads that run one loop together: the step thread and its helpers.
//
// Threads: run() is called by one thread at a time, which takes part as worker 0.
// Invariants: no allocation after construction; workers spin for a short while between runs and
// then park (a hand-over costs 0.1-0.3 us spinning and 20-40 us parked); items are handed out
// dynamically, so a result may never depend on which worker did what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace bulkhead::device {

struct ThreadPoolOptions {
  unsigned threads = 1;             // including the caller
  size_t scratch_bytes = 8u << 20;  // per worker
  bool pin = false;                 // one worker per logical CPU
};

class ThreadPool {
 public:
  explicit ThreadPool(ThreadPoolOptions options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned threads() const;
  // 64-byte aligned scratch of worker `worker`, valid inside a run() item.
  std::span<std::byte> scratch(unsigned worker);

  // Calls fn(item, worker) for every item in [0, items), worker in [0, threads()); returns when all
  // are done. `fn` must not throw.
  template <typename Fn>
  void run(size_t items, Fn&& fn) {
    using Callable = std::remove_reference_t<Fn>;
    run_erased(
        items,
        [](void* context, size_t item, unsigned worker) {
          (*static_cast<Callable*>(context))(item, worker);
        },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  using Body = void (*)(void* context, size_t item, unsigned worker);
  void run_erased(size_t items, Body body, void* context);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bulkhead::device
