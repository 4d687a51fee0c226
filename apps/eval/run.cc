#include "apps/eval/run.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace bulkhead::apps::eval {
namespace {

class Run {
 public:
  Run(const std::vector<const Question*>& questions, bool shares_prefix,
      const std::function<base::Status(Outcome)>& on_outcome)
      : questions_(questions), order_(questions, shares_prefix), on_outcome_(on_outcome) {}

  void work(const MakeAsker& make_asker) {
    Asker asker = make_asker([this](std::chrono::milliseconds time) { return wait(time); });
    while (const std::optional<size_t> index = next()) {
      const Question& question = *questions_[*index];
      base::Result<Reply> reply = asker.ask(question.ask);
      if (!reply.ok()) {
        fail(std::move(reply).error().within("question " + question.id));
        return;
      }
      Outcome outcome{question.id, question.group, question.wanted, question.judge(*reply),
                      std::move(reply).value()};
      finish(*index, std::move(outcome));
    }
  }

  base::Status status() { return failure_ ? base::Status(*failure_) : base::Status(); }

 private:
  std::optional<size_t> next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (failure_ || order_.empty()) return std::nullopt;
      if (const std::optional<size_t> index = order_.take()) return index;
      changed_.wait(lock);
    }
  }

  void finish(size_t index, Outcome outcome) {
    const std::lock_guard lock(mutex_);
    base::Status kept = on_outcome_(std::move(outcome));
    if (!kept.ok() && !failure_) failure_ = std::move(kept).error();
    order_.answered(index);
    changed_.notify_all();
  }

  void fail(base::Error error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
    changed_.notify_all();
  }

  // Before a retry.
  bool wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, time, [this] { return failure_.has_value(); });
  }

  const std::vector<const Question*>& questions_;
  std::mutex mutex_;
  std::condition_variable changed_;
  AskOrder order_;
  const std::function<base::Status(Outcome)>& on_outcome_;
  std::optional<base::Error> failure_;
};

}  // namespace

AskOrder::AskOrder(const std::vector<const Question*>& questions, bool shares_prefix)
    : left_(questions.size()) {
  std::map<std::string, size_t> known;
  group_of_.reserve(questions.size());
  for (size_t i = 0; i < questions.size(); ++i) {
    const std::string name = shares_prefix ? questions[i]->group : std::string();
    const auto [at, is_new] = known.emplace(name, groups_.size());
    if (is_new) {
      groups_.emplace_back();
      groups_.back().open = !shares_prefix;
    }
    groups_[at->second].questions.push_back(i);
    group_of_.push_back(at->second);
  }
}

std::optional<size_t> AskOrder::take() {
  for (size_t i = first_; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.taken == group.questions.size()) {
      first_ += i == first_ ? 1 : 0;
      continue;
    }
    if (group.taken > 0 && !group.open) continue;
    --left_;
    return group.questions[group.taken++];
  }
  return std::nullopt;
}

void AskOrder::answered(size_t index) { groups_[group_of_[index]].open = true; }

base::Status run_questions(const std::vector<const Question*>& questions, bool shares_prefix,
                           unsigned concurrency, const MakeAsker& make_asker,
                           const std::function<base::Status(Outcome)>& on_outcome) {
  Run run(questions, shares_prefix, on_outcome);
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>(concurrency, questions.size());
  threads.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&run, &make_asker] { run.work(make_asker); });
  }
  for (std::thread& thread : threads) thread.join();
  return run.status();
}

}  // namespace bulkhead::apps::eval
