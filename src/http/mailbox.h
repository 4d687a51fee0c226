// Tasks for the I/O thread, handed in from any thread.
//
// Threads: post() from anywhere; drain() and close() on the I/O thread. Invariants: tasks run in
// the order they were posted; after close() a task is dropped, and the wake-up is never called
// again, so a mailbox may outlive the loop it woke.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"

namespace bulkhead::http {

class Mailbox {
 public:
  using Task = std::function<void()>;

  // `wake` makes the I/O thread call drain(); it is called under a lock and must not call back.
  Mailbox(std::function<void()> wake, base::Logger& logger)
      : logger_(logger), wake_(std::move(wake)) {}

  // False when the mailbox is closed (the task is dropped).
  bool post(Task task);
  // Runs what has been posted so far; an exception is logged and contained.
  void drain();
  // Closes and runs what is left.
  void finish();
  // Closes and drops what is left, for a loop that never ran.
  void close() { take_rest(); }

  void set_io_thread() { io_thread_.store(std::this_thread::get_id()); }
  bool on_io_thread() const { return io_thread_.load() == std::this_thread::get_id(); }

  // Runs `task` now, containing exceptions.
  void run_contained(const Task& task, std::string_view what);

 private:
  std::vector<Task> take_rest();
  void run_all(std::vector<Task> tasks);

  base::Logger& logger_;
  std::mutex mutex_;
  std::function<void()> wake_;  // empty once closed
  std::vector<Task> tasks_;
  std::atomic<std::thread::id> io_thread_{};
};

}  // namespace bulkhead::http
