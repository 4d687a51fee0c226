#include "apps/bench/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>

namespace bulkhead::apps {
namespace {

using base::Nanoseconds;

constexpr Nanoseconds kProgressEvery = std::chrono::milliseconds(200);

Nanoseconds monotonic_now() { return base::SteadyClock().now(); }

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class LoadRun {
 public:
  LoadRun(http::AsyncClient& client, const std::vector<BenchRequest>& requests,
          const LoadPlan& plan, const std::function<void(const LoadProgress&)>& on_progress)
      : client_(client), requests_(requests), plan_(plan), on_progress_(on_progress) {
    progress_.total = requests.size();
    result_.records.resize(requests.size());
  }

  LoadResult run() {
    const double cpu = cpu_seconds();
    started_ = ended_ = monotonic_now();
    if (plan_.arrivals_s.empty()) {
      for (uint64_t i = 0; i < std::min<uint64_t>(limit(), requests_.size()); ++i) {
        client_.after({}, [this] { send_next(); });
      }
    } else {
      schedule_arrival();
    }
    if (on_progress_) tick();
    client_.run();
    if (on_progress_) report_progress();
    result_.duration_s = base::to_seconds(ended_ - started_);
    result_.client_cpu_s = cpu_seconds() - cpu;
    return std::move(result_);
  }

 private:
  uint64_t limit() const {
    return plan_.concurrency > 0 ? plan_.concurrency : std::numeric_limits<uint64_t>::max();
  }

  // Open loop: one timer at a time, for the next arrival.
  void schedule_arrival() {
    if (arrived_ == requests_.size()) return;
    const Nanoseconds due = started_ + arrival_offset(arrived_);
    client_.after(due - monotonic_now(), [this] {
      waiting_.push_back(arrived_++);
      schedule_arrival();
      send_waiting();
    });
  }
  Nanoseconds arrival_offset(uint64_t index) const {
    return std::chrono::duration_cast<Nanoseconds>(
        std::chrono::duration<double>(plan_.arrivals_s[index]));
  }
  void send_waiting() {
    while (!waiting_.empty() && progress_.open < limit()) {
      const uint64_t index = waiting_.front();
      waiting_.pop_front();
      send(index, started_ + arrival_offset(index));
    }
  }

  // Closed loop: the next request starts where one ended.
  void send_next() {
    if (arrived_ == requests_.size()) return;
    send(arrived_++, monotonic_now());
  }

  void send(uint64_t index, Nanoseconds arrived) {
    const BenchRequest& request = requests_[index];
    const auto recorder = std::make_shared<StreamRecorder>(arrived);
    http::AsyncCall call;
    call.target = request.target;
    call.headers = plan_.headers;
    call.body = request.body;
    call.timeout = plan_.timeout;
    call.on_piece = [recorder](std::string_view bytes) {
      recorder->piece(bytes, monotonic_now());
      return true;
    };
    call.on_done = [this, recorder, index,
                    arrived](const base::Result<http::ClientResponse>& result) {
      end(index, arrived, recorder->finish(result, monotonic_now()));
    };
    ++progress_.open;
    result_.open_max = std::max(result_.open_max, progress_.open);
    client_.send(std::move(call));
  }

  void end(uint64_t index, Nanoseconds arrived, RequestRecord record) {
    record.index = index;
    record.start_s = base::to_seconds(arrived - started_);
    record.asked_tokens = requests_[index].output_tokens;
    if (!record.usage) record.input_tokens = requests_[index].input_tokens;
    --progress_.open;
    ++progress_.done;
    progress_.failed += record.failure.empty() ? 0 : 1;
    progress_.output_tokens += record.output_tokens;
    result_.records[index] = std::move(record);
    ended_ = monotonic_now();
    if (plan_.arrivals_s.empty()) {
      send_next();
    } else {
      send_waiting();
    }
  }

  void tick() {
    report_progress();
    if (progress_.done < progress_.total) client_.after(kProgressEvery, [this] { tick(); });
  }
  void report_progress() {
    progress_.elapsed_s = base::to_seconds(monotonic_now() - started_);
    on_progress_(progress_);
  }

  http::AsyncClient& client_;
  const std::vector<BenchRequest>& requests_;
  const LoadPlan& plan_;
  const std::function<void(const LoadProgress&)>& on_progress_;
  Nanoseconds started_{0};
  Nanoseconds ended_{0};
  uint64_t arrived_ = 0;
  std::deque<uint64_t> waiting_;  // arrived, not sent: the limit is reached
  LoadProgress progress_;
  LoadResult result_;
};

}  // namespace

LoadResult run_load(http::AsyncClient& client, const std::vector<BenchRequest>& requests,
                    const LoadPlan& plan,
                    const std::function<void(const LoadProgress&)>& on_progress) {
  return LoadRun(client, requests, plan, on_progress).run();
}

}  // namespace bulkhead::apps
