// An EventSink that keeps everything it is told, for tests.
//
// Threads: events on one thread, questions on any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "wire/generate.h"

namespace bulkhead::engine::testing {

class CollectingSink final : public wire::EventSink {
 public:
  void on_prompt(wire::PromptEvent event) override {
    std::lock_guard lock(mutex_);
    prompt_.push_back(std::move(event));
  }
  void on_token(wire::TokenEvent event) override {
    std::lock_guard lock(mutex_);
    tokens_after_finish_ += finishes_ > 0 ? 1 : 0;
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  void on_finish(wire::FinishEvent event) override {
    std::lock_guard lock(mutex_);
    ++finishes_;
    finish_ = std::move(event);
    changed_.notify_all();
  }

  std::vector<wire::TokenEvent> events() const {
    std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<wire::TokenId> tokens() const {
    std::lock_guard lock(mutex_);
    std::vector<wire::TokenId> ids;
    for (const wire::TokenEvent& event : events_) ids.push_back(event.token);
    return ids;
  }
  std::vector<wire::PromptEvent> prompt_events() const {
    std::lock_guard lock(mutex_);
    return prompt_;
  }
  std::optional<wire::FinishEvent> finish() const {
    std::lock_guard lock(mutex_);
    return finish_;
  }
  int finishes() const {
    std::lock_guard lock(mutex_);
    return finishes_;
  }
  int tokens_after_finish() const {
    std::lock_guard lock(mutex_);
    return tokens_after_finish_;
  }
  // False when the end does not come in time.
  bool wait_finished(std::chrono::seconds timeout = std::chrono::seconds(60)) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return finishes_ > 0; });
  }
  bool wait_tokens(size_t count, std::chrono::seconds timeout = std::chrono::seconds(60)) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout,
                             [this, count] { return events_.size() >= count || finishes_ > 0; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<wire::PromptEvent> prompt_;
  std::vector<wire::TokenEvent> events_;
  std::optional<wire::FinishEvent> finish_;
  int finishes_ = 0;
  int tokens_after_finish_ = 0;
};

}  // namespace bulkhead::engine::testing
