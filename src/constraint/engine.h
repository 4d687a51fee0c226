// The grammar engine: specifications to constraints over one vocabulary. XGrammar is behind it and
// nowhere else.
//
// Threads: compile() runs on one thread at a time, whose stack has kCompileStackBytes; what it
// returns may be shared by any. Invariants: nothing the engine throws gets out; what it would have
// to pass over or approximate is an error that says what.
#pragma once

#include <memory>

#include "base/result.h"
#include "constraint/vocabulary.h"
#include "telemetry/metrics.h"
#include "wire/constraint.h"

namespace bulkhead::constraint {

// Deepest recursion is bounded by the limits on schemas; measured at under 2 MB without sanitizers.
inline constexpr size_t kCompileStackBytes = 64u << 20;
inline constexpr size_t kConstraintBytesMax = 64u << 20;  // of one compiled specification

class Engine {
 public:
  // `fill_seconds` hears how long each mask took; it may be null and outlives every constraint.
  static base::Result<std::unique_ptr<Engine>> create(Vocabulary vocabulary,
                                                      telemetry::Histogram* fill_seconds);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  base::Result<std::shared_ptr<const wire::Constraint>> compile(
      const wire::ConstraintSpec& spec) const;

  struct Core;  // shared by every constraint it made

 private:
  explicit Engine(std::shared_ptr<const Core> core) : core_(std::move(core)) {}

  std::shared_ptr<const Core> core_;
};

}  // namespace bulkhead::constraint
