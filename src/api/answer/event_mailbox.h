// Carries one generation's events from the step thread to the I/O thread.
//
// Threads: on_token and on_finish on the step thread; `deliver` is called on the I/O thread, one
// call at a time. Invariants: order is kept; what waits is bounded: beyond the capacity events are
// dropped and the delivery says so; one wake-up is under way at a time; the last delivery carries
// the FinishEvent.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "wire/generate.h"

namespace bulkhead::api {

struct TimedToken {
  wire::TokenEvent event;
  base::Nanoseconds at{0};  // when the step thread handed it over
};

struct EventBatch {
  std::vector<wire::PromptEvent> prompt;  // before `tokens`
  std::vector<TimedToken> tokens;
  std::optional<wire::FinishEvent> finish;
  bool overflowed = false;  // events are missing after `tokens`
};

class EventMailbox final : public wire::EventSink,
                           public std::enable_shared_from_this<EventMailbox> {
 public:
  using Post = std::function<void(std::function<void()>)>;
  using Deliver = std::function<void(EventBatch& batch)>;

  EventMailbox(Post post, const base::Clock& clock, size_t capacity, Deliver deliver)
      : post_(std::move(post)), clock_(clock), capacity_(capacity), deliver_(std::move(deliver)) {}

  void on_prompt(wire::PromptEvent event) override;
  void on_token(wire::TokenEvent event) override;
  void on_finish(wire::FinishEvent event) override;

 private:
  void wake();
  void drain();

  const Post post_;
  const base::Clock& clock_;
  const size_t capacity_;
  Deliver deliver_;

  std::mutex mutex_;
  EventBatch pending_;   // guarded by mutex_
  bool awake_ = false;   // guarded by mutex_: a drain is posted
  EventBatch draining_;  // I/O thread; its buffer goes back and forth with pending_'s
};

}  // namespace bulkhead::api
