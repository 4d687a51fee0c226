#include "apps/bench/reproduce/crowd.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"

namespace bulkhead::apps::reproduce {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Crowd::on_token(size_t index) {
  std::lock_guard lock(mutex_);
  Told& one = told_[index];
  one.last_seconds = now();
  if (one.first_token != 0) return;
  one.first_token = ++clock_;
  one.first_seconds = one.last_seconds;
}

void Crowd::on_finish(size_t index, wire::FinishEvent event) {
  std::lock_guard lock(mutex_);
  told_[index].finished = ++clock_;
  told_[index].end = std::move(event);
  if (++finished_ == told_.size()) done_.notify_all();
}

std::vector<Told> Crowd::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return finished_ == told_.size(); });
  return told_;
}

Admission admission_of(std::span<const Told> told) {
  Admission out;
  std::vector<std::pair<uint64_t, int>> changes;
  changes.reserve(2 * told.size());
  uint64_t first_end = UINT64_MAX;
  uint64_t last_begin = 0;
  for (const Told& one : told) {
    if (one.end.error || one.first_token == 0) {
      ++out.failed;
      continue;
    }
    changes.emplace_back(one.first_token, 1);
    changes.emplace_back(one.finished, -1);
    first_end = std::min(first_end, one.finished);
    last_begin = std::max(last_begin, one.first_token);
  }
  std::sort(changes.begin(), changes.end());
  int64_t running = 0;
  int64_t most = 0;
  for (const auto& [when, change] : changes) {
    running += change;
    most = std::max(most, running);
  }
  out.together = static_cast<size_t>(most);
  out.last_waited = last_begin > first_end;
  return out;
}

Phases phases_of(std::span<const Told> told, int32_t prompt_tokens, int32_t answer_tokens) {
  double prefill_seconds = 0.0;
  double all_begun = 0.0;
  double all_done = 0.0;
  for (const Told& one : told) {
    prefill_seconds = std::max(prefill_seconds, base::to_seconds(one.end.prefill_time));
    all_begun = std::max(all_begun, one.first_seconds);
    all_done = std::max(all_done, one.last_seconds);
  }
  const auto count = static_cast<double>(told.size());
  return {count * prompt_tokens / prefill_seconds,
          count * (answer_tokens - 1) / (all_done - all_begun)};
}

}  // namespace bulkhead::apps::reproduce
