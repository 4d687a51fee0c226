// The same decode steps with pages compared, with the comparison off, and built without a place for
// it: one after the other in one process.
//
// Threads: the caller's; the decoder brings its own pool.
// Invariants: all read and write the same pages of one cache, and compute the same tokens from
// them, so that the check is all they differ in (and, of copies of the same step, where they lie in
// memory); each has a page pool of its own for the books, whose page ids are those of the cache.
// Positions of the sequences lie so that one of them fills a
// page in each step, and come again after as many steps as a page has tokens.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "bench/steps.h"
#include "engine/executor.h"
#include "engine/sequence.h"
#include "engine/step_guard.h"
#include "kv/page_pool.h"
#include "sampling/sampler.h"

namespace bulkhead::apps::reproduce {

enum class Check {
  kNone,     // the step is compiled without a guard
  kTwin,     // the same code once more, elsewhere in memory
  kTriplet,  // and once more
  kOff,
  kObserve,
  kAbort,
};

struct StepTime {
  double seconds = 0.0;
  double guard = 0.0;  // of them, in calls of the guard
};

class CheckRace {
 public:
  // `cache`: of this decoder, with at least a page of context for each of its sequences.
  static base::Result<CheckRace> make(model::Decoder& decoder, bench::FilledCache cache,
                                      std::span<const Check> checks);

  // Steps of all of them in turn, at least so many rounds and then until the seconds are over.
  void run(double seconds, size_t rounds);
  // By round. The check is one of those given.
  std::span<const StepTime> times(Check check) const { return lane(check).times; }
  std::span<const engine::Sequence> sequences(Check check) const { return lane(check).sequences; }
  const kv::PagePool& pool(Check check) const { return *lane(check).pool; }
  size_t pages_of_one() const { return cache_.pages(0).size(); }

  // Seconds that the comparisons before and after one step take alone, again and again, and those
  // of the digest of one page that was not looked at lately: medians. Of a check that has a guard.
  double comparison_seconds(Check check);
  double digest_seconds(Check check);

 private:
  struct Lane {
    Check check = Check::kOff;
    std::unique_ptr<kv::PagePool> pool;
    std::unique_ptr<engine::StepGuard> guard;  // none: a step without one
    std::vector<engine::Sequence> sequences;
    std::vector<StepTime> times;
  };

  CheckRace(bench::FilledCache cache, std::unique_ptr<engine::Executor> executor);
  base::Result<Lane> make_lane(Check check) const;
  engine::Sequence make_sequence(kv::PagePool& pool, int32_t index) const;
  const Lane& lane(Check check) const;
  Lane& lane(Check check);
  void plan(const Lane& lane);
  StepTime step(Lane& lane);
  template <typename Guard>
  StepTime step(Guard& guard, Lane& lane);
  void rewind(Lane& lane) const;

  bench::FilledCache cache_;
  std::unique_ptr<engine::Executor> executor_;
  sampling::Sampler sampler_;
  engine::StepPlan plan_;
  std::vector<Lane> lanes_;
};

}  // namespace bulkhead::apps::reproduce
