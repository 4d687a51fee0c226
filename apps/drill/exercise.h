// The drill itself: each class of faults in each pool, round by round, and what was seen.
//
// Threads: one thread. Invariant: a row is what was observed; verdicts are judge.h's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "apps/drill/matrix.h"
#include "apps/drill/options.h"
#include "apps/drill/session.h"
#include "apps/drill/throwaway_server.h"

namespace bulkhead::apps {

class Exercise {
 public:
  // `progress` is told of each row as it is done, with its place among all of them.
  using Progress = std::function<void(const Row&, size_t number, size_t rows)>;
  // `running`: somebody's server, or nothing for one of its own.
  Exercise(const DrillOptions& options, std::optional<Target> running, Progress progress)
      : options_(options), running_(std::move(running)), progress_(std::move(progress)) {}

  // Errors: kInvalidArgument and kUnsupported for what cannot be drilled; others where a server of
  // somebody else's went away.
  base::Result<Matrix> run();

 private:
  struct Task {
    const FaultClass* fault = nullptr;
    std::string pool;
  };

  base::Status connect();
  std::vector<Task> tasks() const;
  base::Result<Row> run_task(const Task& task);
  base::Status run_round(const Task& task, Row& row);
  bool stops_damage(const Task& task) const;
  base::Status prepare();
  base::Status damage(const Task& task, Row& row);
  base::Status damage_at_rest(const Task& task, const IntegrityReport& before);
  base::Status recover(const Task& task, const IntegrityReport& before, Row& row);
  base::Result<Tally> wave(const FaultOrder* order, Row& row);
  base::Result<bool> is_noticed(const FaultClass& fault, const IntegrityReport& before) const;

  const DrillOptions& options_;
  const std::optional<Target> running_;
  const Progress progress_;
  std::unique_ptr<ThrowawayServer> server_;  // null: somebody else's
  std::unique_ptr<Session> session_;
};

}  // namespace bulkhead::apps
