#include "constraint/compiler.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "constraint/structural_tag.h"

namespace bulkhead::constraint {
namespace {

using Clock = std::chrono::steady_clock;
using Shared = std::shared_ptr<const wire::Constraint>;
using Done = wire::ConstraintCompiler::Done;

struct Question {
  Clock::time_point until;
  Done done;
};

// One specification under way and everybody who wants it.
struct Job {
  std::string key;
  wire::ConstraintSpec spec;
  bool running = false;
  std::vector<Question> questions;
};

base::Error too_slow() {
  return base::invalid_argument("schema", "it takes too long to compile; make it simpler");
}
base::Error too_many() {
  return {base::ErrorCode::kResourceExhausted, "too many schemas are waiting to be compiled", {}};
}
base::Error ending() { return {base::ErrorCode::kUnavailable, "the server is shutting down", {}}; }

// The least recently used go first.
class Cache {
 public:
  explicit Cache(size_t bytes_max) : bytes_max_(bytes_max) {}

  Shared find(const std::string& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->constraint;
  }

  void insert(const std::string& key, Shared constraint) {
    const size_t bytes = constraint->bytes() + 2 * key.size();
    if (bytes > bytes_max_ || by_key_.count(key) > 0) return;
    entries_.push_front({key, std::move(constraint), bytes});
    by_key_[key] = entries_.begin();
    bytes_ += bytes;
    while (bytes_ > bytes_max_) {
      bytes_ -= entries_.back().bytes;
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string key;
    Shared constraint;
    size_t bytes = 0;
  };

  const size_t bytes_max_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // the latest first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace

struct Compiler::Core {
  Core(std::unique_ptr<Engine> the_engine, const CompilerOptions& the_options,
       telemetry::Histogram& histogram)
      : engine(std::move(the_engine)),
        options(the_options),
        compile_seconds(histogram),
        cache(the_options.cache_bytes_max) {}

  void work();
  void watch();
  std::vector<Question> take_late(Clock::time_point now, bool running);
  static void answer(std::vector<Question>& questions, const base::Result<Shared>& result);

  const std::unique_ptr<Engine> engine;
  const CompilerOptions options;
  telemetry::Histogram& compile_seconds;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;  // oldest first; the first one may be running
  size_t waiting = 0;    // questions in `jobs`
  Cache cache;
  bool ending_now = false;

  pthread_t worker{};
  std::thread watcher;
};

void Compiler::Core::answer(std::vector<Question>& questions, const base::Result<Shared>& result) {
  for (Question& question : questions) {
    if (result.ok()) {
      question.done(result.value());
    } else {
      question.done(result.error());
    }
  }
}

void Compiler::Core::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return ending_now || !jobs.empty(); });
    if (ending_now) return;
    Job& job = jobs.front();
    job.running = true;
    const wire::ConstraintSpec spec = std::move(job.spec);
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    const base::Result<Shared> result = engine->compile(spec);
    compile_seconds.observe(std::chrono::duration<double>(Clock::now() - begin).count());
    lock.lock();
    // Only this thread removes jobs, and others are added behind.
    Job done = std::move(jobs.front());
    jobs.pop_front();
    if (result.ok()) cache.insert(done.key, result.value());
    waiting -= done.questions.size();
    lock.unlock();
    answer(done.questions, result);
    lock.lock();
  }
}

// Questions whose time is up, of the job that runs or of those that wait.
std::vector<Question> Compiler::Core::take_late(Clock::time_point now, bool running) {
  std::vector<Question> late;
  for (Job& job : jobs) {
    if (job.running != running) continue;
    std::vector<Question> rest;
    for (Question& question : job.questions) {
      (question.until <= now ? late : rest).push_back(std::move(question));
    }
    job.questions = std::move(rest);
  }
  waiting -= late.size();
  return late;
}

void Compiler::Core::watch() {
  std::unique_lock lock(mutex);
  while (!ending_now) {
    Clock::time_point next = Clock::time_point::max();
    for (const Job& job : jobs) {
      for (const Question& question : job.questions) next = std::min(next, question.until);
    }
    if (next == Clock::time_point::max()) {
      changed.wait(lock);
      continue;
    }
    changed.wait_until(lock, next);
    const Clock::time_point now = Clock::now();
    std::vector<Question> slow = take_late(now, true);
    std::vector<Question> queued = take_late(now, false);
    lock.unlock();
    answer(slow, too_slow());
    answer(queued, too_many());
    lock.lock();
  }
}

base::Result<std::unique_ptr<Compiler>> Compiler::create(Vocabulary vocabulary,
                                                         const CompilerOptions& options,
                                                         telemetry::Registry& registry) {
  telemetry::Histogram& fill = registry.histogram(
      "bulkhead_constraint_mask_seconds", "Time to work out which tokens a constraint allows next.",
      {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1});
  telemetry::Histogram& compile = registry.histogram(
      "bulkhead_constraint_compile_seconds", "Time to compile a constraint that was not cached.",
      {1e-3, 1e-2, 0.05, 0.1, 0.5, 1, 5, 10});
  BH_ASSIGN(std::unique_ptr<Engine> engine, Engine::create(std::move(vocabulary), &fill));
  auto core = std::make_unique<Core>(std::move(engine), options, compile);
  Core* const shared = core.get();
  registry.gauge("bulkhead_constraints_cached", "Compiled constraints kept for reuse.", [shared] {
    const std::lock_guard lock(shared->mutex);
    return static_cast<double>(shared->cache.size());
  });
  registry.gauge("bulkhead_constraints_cached_bytes", "Memory of the compiled constraints kept.",
                 [shared] {
                   const std::lock_guard lock(shared->mutex);
                   return static_cast<double>(shared->cache.bytes());
                 });
  return std::unique_ptr<Compiler>(new Compiler(std::move(core)));
}

Compiler::Compiler(std::unique_ptr<Core> core) : core_(std::move(core)) {
  // std::thread cannot choose its stack.
  pthread_attr_t attributes;
  BH_CHECK(pthread_attr_init(&attributes) == 0, "thread attributes");
  BH_CHECK(pthread_attr_setstacksize(&attributes, kCompileStackBytes) == 0, "a legal stack size");
  const int failed = pthread_create(
      &core_->worker, &attributes,
      [](void* self) -> void* {
        static_cast<Core*>(self)->work();
        return nullptr;
      },
      core_.get());
  pthread_attr_destroy(&attributes);
  BH_CHECK(failed == 0, "the system gives a thread at start");
  core_->watcher = std::thread([core = core_.get()] { core->watch(); });
}

Compiler::~Compiler() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->ending_now = true;
  }
  core_->changed.notify_all();
  core_->watcher.join();
  pthread_join(core_->worker, nullptr);
  for (Job& job : core_->jobs) Core::answer(job.questions, ending());
}

void Compiler::compile(wire::ConstraintSpec spec, Done done) {
  std::string key = spec_key(spec);
  Shared cached;
  {
    const std::lock_guard lock(core_->mutex);
    cached = core_->cache.find(key);
    if (!cached && core_->waiting < core_->options.waiting_max) {
      Question question{Clock::now() + core_->options.time_max, std::move(done)};
      ++core_->waiting;
      for (Job& job : core_->jobs) {
        if (job.key != key) continue;
        job.questions.push_back(std::move(question));
        core_->changed.notify_all();
        return;
      }
      Job& job = core_->jobs.emplace_back();
      job.key = std::move(key);
      job.spec = std::move(spec);
      job.questions.push_back(std::move(question));
      core_->changed.notify_all();
      return;
    }
  }
  if (cached) return done(std::move(cached));
  done(too_many());
}

}  // namespace bulkhead::constraint
