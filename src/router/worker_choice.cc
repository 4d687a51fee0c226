#include "router/worker_choice.h"

#include <algorithm>

#include "base/rng.h"

namespace bulkhead::router {
namespace {

bool can_take(const WorkerView& worker) { return worker.available && worker.has_room; }

// What the worker has to do before it is through with this request.
int64_t work_until_done(const WorkerView& worker, const WorkerNeed& need) {
  const int64_t cached = std::min<int64_t>(worker.cached_tokens, need.tokens);
  return worker.tokens_in_flight + need.tokens - cached;
}

}  // namespace

std::optional<size_t> home_of_session(std::span<const WorkerView> workers, uint64_t session) {
  std::optional<size_t> home;
  uint64_t highest = 0;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (!workers[i].available) continue;
    const uint64_t weight = base::mix64(base::mix64(session) ^ workers[i].name);
    if (home && weight <= highest) continue;
    home = i;
    highest = weight;
  }
  return home;
}

std::optional<size_t> choose_worker(std::span<const WorkerView> workers, const WorkerNeed& need) {
  const bool fresh_one = std::any_of(workers.begin(), workers.end(), [](const WorkerView& worker) {
    return can_take(worker) && !worker.failed;
  });
  const auto candidate = [fresh_one](const WorkerView& worker) {
    return can_take(worker) && !(fresh_one && worker.failed);
  };
  if (need.session != 0) {
    const auto home = home_of_session(workers, need.session);
    if (home && candidate(workers[*home])) return home;
  }
  std::optional<size_t> best;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (!candidate(workers[i])) continue;
    if (!best || work_until_done(workers[i], need) < work_until_done(workers[*best], need)) {
      best = i;
    }
  }
  return best;
}

}  // namespace bulkhead::router
