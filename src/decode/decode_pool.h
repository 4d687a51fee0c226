// Runs one token for every sequence it holds, each step: plan, reserve, verify, forward, sample,
// commit.
//
// Threads: step thread only. Invariants: one row per running sequence, and a row is a view made
// once per step: nothing about a request lives in a row; only commit changes sequences; which
// sequences share a step has no influence on any answer; a step writes only pages it has, so
// running out of pages happens before a step and never in it. With pages of its own, decode
// promises each request all it may ever need before prefill begins, so it never runs out, and
// leaves nothing to the prefix index; what a step reads is verified before it and again before it
// emits anything (engine/step_guard.h), and a sequence that fails ends alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/executor.h"
#include "engine/sequence.h"
#include "engine/step_guard.h"
#include "sampling/sampler.h"
#include "transfer/link.h"
#include "wire/pools.h"

namespace bulkhead::decode {

struct DecodeOptions {
  uint32_t running_max = 64;  // at most the model's limits on rows, slices and logits rows
};

struct DecodeDeps {
  engine::Executor& executor;
  sampling::Sampler& sampler;
  transfer::Link& link;
  // One of the two: the index over the pages that both pools use, or pages of decode's own.
  kv::PrefixIndex* index = nullptr;
  kv::PagePool* own_pages = nullptr;
};

class DecodePool final : public wire::DecodePort {
 public:
  DecodePool(const DecodeOptions& options, const DecodeDeps& deps);

  bool reserve(const wire::SequenceState& state) override;
  void unreserve(wire::Slot slot) override { deps_.link.unreserve(slot); }
  bool prepare(wire::PoolEvents& events) override;
  wire::StepReport step(wire::PoolEvents& events) override;
  void abort(wire::Slot slot, wire::PoolEvents& events) override;
  std::optional<wire::SequenceState> preempt(wire::Slot slot) override;
  std::optional<wire::PageGauges> pages() const override;

  std::span<const engine::Sequence> sequences() const { return sequences_; }

 private:
  std::vector<engine::Sequence>::iterator find(wire::Slot slot);
  void accept(wire::PoolEvents& events);
  bool cover();
  void keep(engine::Sequence& sequence);
  void plan();
  // Ends whoever the guard found wanting before the step.
  void drop_refused(wire::PoolEvents& events);
  kv::PagePool& read_pages() const;
  wire::StepOutcome commit(wire::PoolEvents& events);

  const DecodeOptions options_;
  DecodeDeps deps_;
  std::unique_ptr<engine::StepGuard> guard_;
  std::vector<engine::Sequence> sequences_;  // in order of arrival
  engine::StepPlan plan_;                    // slice i belongs to sequences_[i]
};

}  // namespace bulkhead::decode
