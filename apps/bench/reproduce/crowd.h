// Requests that are submitted together, and what became of each: in which order they began and
// ended, and when.
//
// Threads: events on the step thread, the rest on whoever waits.
// Invariant: first_token and finished are drawn from one count, so that they order all events of a
// crowd.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "wire/generate.h"

namespace bulkhead::apps::reproduce {

struct Told {
  uint64_t first_token = 0;  // 0: none came
  uint64_t finished = 0;
  double first_seconds = 0.0;  // of the monotonic clock
  double last_seconds = 0.0;
  wire::FinishEvent end;
};

class Crowd {
 public:
  explicit Crowd(size_t size) : told_(size) {}

  void on_token(size_t index);
  void on_finish(size_t index, wire::FinishEvent event);
  // Until all have ended.
  std::vector<Told> wait();

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<Told> told_;
  uint64_t clock_ = 0;
  size_t finished_ = 0;
};

// One request's ear.
class Member final : public wire::EventSink {
 public:
  Member(std::shared_ptr<Crowd> crowd, size_t index) : crowd_(std::move(crowd)), index_(index) {}
  void on_prompt(wire::PromptEvent) override {}  // never asked for
  void on_token(wire::TokenEvent) override { crowd_->on_token(index_); }
  void on_finish(wire::FinishEvent event) override { crowd_->on_finish(index_, std::move(event)); }

 private:
  std::shared_ptr<Crowd> crowd_;
  size_t index_;
};

struct Admission {
  size_t failed = 0;         // ended with an error, or without a token
  size_t together = 0;       // the most that had begun and not ended at one time
  bool last_waited = false;  // the last to begin did so after somebody had ended
};
Admission admission_of(std::span<const Told> told);

// Tokens per second of the two phases of a crowd whose members all decode at once.
struct Phases {
  double prefill = 0.0;
  double decode = 0.0;
};
Phases phases_of(std::span<const Told> told, int32_t prompt_tokens, int32_t answer_tokens);

}  // namespace bulkhead::apps::reproduce
