#include "http/mailbox.h"

#include <exception>
#include <utility>

namespace bulkhead::http {

bool Mailbox::post(Task task) {
  const std::lock_guard lock(mutex_);
  if (!wake_) return false;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) wake_();
  return true;
}

void Mailbox::drain() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  run_all(std::move(tasks));
}

void Mailbox::finish() { run_all(take_rest()); }

std::vector<Mailbox::Task> Mailbox::take_rest() {
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  return std::exchange(tasks_, {});
}

void Mailbox::run_all(std::vector<Task> tasks) {
  for (Task& task : tasks) {
    run_contained(task, "a task on the HTTP thread failed");
    task = nullptr;  // what it holds ends here, before the next task runs
  }
}

void Mailbox::run_contained(const Task& task, std::string_view what) {
  try {
    task();
  } catch (const std::exception& e) {
    logger_.error(what, {{"reason", std::string(e.what())}});
  } catch (...) {
    logger_.error(what, {{"reason", std::string("not a std::exception")}});
  }
}

}  // namespace bulkhead::http
