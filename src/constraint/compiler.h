// Compiles specifications on a thread of its own, and remembers what it made.
//
// Threads: any thread may ask; one worker compiles, one watcher keeps the time. Invariants: every
// question is answered once, at the latest when its time is up or the compiler ends; the queue and
// the memory of what is remembered are bounded; equal specifications under way are compiled once,
// those of two scopes apart. A compilation cannot be interrupted: who asked for it is told in time
// and it goes on by itself; the limits on schemas (schema/grammar_schema.h) bound how long.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "constraint/engine.h"
#include "telemetry/metrics.h"
#include "wire/constraint.h"

namespace bulkhead::constraint {

struct CompilerOptions {
  size_t waiting_max = 64;                     // questions under way; beyond: kResourceExhausted
  size_t cache_bytes_max = 256u << 20;         // of compiled grammars and their specifications
  std::chrono::milliseconds time_max{10'000};  // until a question is answered
};

class Compiler final : public wire::ConstraintCompiler {
 public:
  // `registry` outlives the compiler and every constraint.
  static base::Result<std::unique_ptr<Compiler>> create(Vocabulary vocabulary,
                                                        const CompilerOptions& options,
                                                        telemetry::Registry& registry);
  ~Compiler() override;

  void compile(wire::ConstraintSpec spec, Done done) override;

 private:
  struct Core;
  explicit Compiler(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace bulkhead::constraint
