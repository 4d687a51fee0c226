// Compute stays on the processors the operating system left to this process.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <set>
#include <thread>

#include "device/cpu.h"
#include "device/thread_pool.h"

namespace bulkhead::device {
namespace {

std::vector<int> cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  }
  return out;
}

// A thread that may run on `cpu` alone, as under `taskset -c CPU`.
template <typename Body>
void on_one_cpu(int cpu, Body body) {
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    ASSERT_EQ(::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set), 0);
    body();
  }).join();
}

// C216
TEST(Affinity, TheNumberOfThreadsIsThatOfTheProcessorsLeftToUs) {
  const std::vector<int> cpus = cpus_of_this_thread();
  EXPECT_LE(detect_cpu().logical_cpus, cpus.size());
  for (const int cpu : cpus) {
    on_one_cpu(cpu, [] { EXPECT_EQ(detect_cpu().logical_cpus, 1u); });
  }
}

// C216
TEST(Affinity, NoWorkerLeavesTheProcessorsItWasGiven) {
  for (const int cpu : cpus_of_this_thread()) {
    on_one_cpu(cpu, [cpu] {
      for (const unsigned threads : {1u, 2u, 3u}) {
        ThreadPool pool({.threads = threads});
        std::atomic<int> elsewhere{0};
        std::atomic<int> done{0};
        pool.run(300, [&](size_t, unsigned) {
          for (const int allowed : cpus_of_this_thread()) elsewhere += allowed != cpu ? 1 : 0;
          ++done;
        });
        EXPECT_EQ(elsewhere, 0);
        EXPECT_EQ(done, 300);
      }
    });
  }
}

}  // namespace
}  // namespace bulkhead::device
