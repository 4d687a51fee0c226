#include "api/answer/event_mailbox.h"

#include <utility>

namespace bulkhead::api {

// Bounded by the prompt, which is a bounded request's own.
void EventMailbox::on_prompt(wire::PromptEvent event) {
  bool must_wake = false;
  {
    std::lock_guard lock(mutex_);
    pending_.prompt.push_back(std::move(event));
    must_wake = !std::exchange(awake_, true);
  }
  if (must_wake) wake();
}

void EventMailbox::on_token(wire::TokenEvent event) {
  bool must_wake = false;
  {
    std::lock_guard lock(mutex_);
    if (pending_.tokens.size() >= capacity_) {
      pending_.overflowed = true;
    } else if (!pending_.overflowed) {
      pending_.tokens.push_back({std::move(event), clock_.now()});
    }
    must_wake = !std::exchange(awake_, true);
  }
  if (must_wake) wake();
}

void EventMailbox::on_finish(wire::FinishEvent event) {
  bool must_wake = false;
  {
    std::lock_guard lock(mutex_);
    pending_.finish = std::move(event);
    must_wake = !std::exchange(awake_, true);
  }
  if (must_wake) wake();
}

void EventMailbox::wake() {
  post_([self = shared_from_this()] { self->drain(); });
}

void EventMailbox::drain() {
  {
    std::lock_guard lock(mutex_);
    std::swap(pending_, draining_);
    pending_.overflowed = draining_.overflowed;  // once lost, the rest is lost too
    awake_ = false;
  }
  deliver_(draining_);
  const bool last = draining_.finish.has_value();
  draining_.prompt.clear();
  draining_.tokens.clear();
  draining_.finish.reset();
  draining_.overflowed = false;
  if (last) deliver_ = nullptr;  // lets go of whoever waits for events
}

}  // namespace bulkhead::api
