#include "router/inbox.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/spin.h"

namespace bulkhead::router {

Inbox::Inbox(uint32_t live_max) : live_max_(live_max) {
  arrivals_.reserve(live_max);
  cancellations_.reserve(live_max);
  live_.reserve(live_max);
}

base::Status Inbox::submit(std::vector<wire::Submission> batch, std::chrono::nanoseconds now) {
  {
    std::lock_guard lock(mutex_);
    if (closed_.load(std::memory_order_relaxed)) {
      return base::Error{base::ErrorCode::kUnavailable, "the server is shutting down", {}};
    }
    if (live_.size() + batch.size() > live_max_) {
      return base::Error{
          base::ErrorCode::kResourceExhausted,
          fmt::format("the server is at its limit of {} requests; try again later", live_max_),
          {}};
    }
    BH_TRY(enter_ids(batch));
    for (wire::Submission& one : batch) {
      arrivals_.push_back({std::move(one.request), std::move(one.sink), now});
    }
    pending_.store(true, std::memory_order_release);
  }
  arrived_.notify_one();
  return {};
}

base::Status Inbox::enter_ids(const std::vector<wire::Submission>& batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const wire::RequestId id = batch[i].request.id;
    if (live_.emplace(id, false).second) continue;
    for (size_t entered = 0; entered < i; ++entered) live_.erase(batch[entered].request.id);
    return base::invalid_argument("id", fmt::format("request id {} is in use", id));
  }
  return {};
}

void Inbox::cancel(wire::RequestId id) {
  {
    std::lock_guard lock(mutex_);
    const auto found = live_.find(id);
    if (found == live_.end() || found->second) return;
    found->second = true;
    cancellations_.push_back(id);
    pending_.store(true, std::memory_order_release);
  }
  arrived_.notify_one();
}

void Inbox::flush() {
  {
    std::lock_guard lock(mutex_);
    flush_.store(true, std::memory_order_release);
    pending_.store(true, std::memory_order_release);
  }
  arrived_.notify_one();
}

void Inbox::close() {
  {
    std::lock_guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    pending_.store(true, std::memory_order_release);
  }
  arrived_.notify_one();
}

void Inbox::take(std::vector<Arrival>& arrivals, std::vector<wire::RequestId>& cancellations) {
  if (!pending_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(mutex_);
  pending_.store(false, std::memory_order_relaxed);
  std::move(arrivals_.begin(), arrivals_.end(), std::back_inserter(arrivals));
  arrivals_.clear();
  cancellations.insert(cancellations.end(), cancellations_.begin(), cancellations_.end());
  cancellations_.clear();
}

void Inbox::forget(wire::RequestId id) {
  std::lock_guard lock(mutex_);
  live_.erase(id);
}

void Inbox::wait(std::chrono::nanoseconds timeout) {
  // A request that follows closely finds the step thread awake; parking costs it tens of us.
  constexpr int kSpins = 2000;
  for (int i = 0; i < kSpins; ++i) {
    if (pending_.load(std::memory_order_acquire)) return;
    base::cpu_relax();
  }
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, timeout, [this] { return pending_.load(std::memory_order_relaxed); });
}

}  // namespace bulkhead::router
