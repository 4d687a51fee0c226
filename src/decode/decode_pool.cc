#include "decode/decode_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::decode {

using engine::Sequence;
using engine::Settled;
using wire::StepOutcome;

DecodePool::DecodePool(const DecodeOptions& options, const DecodeDeps& deps)
    : options_(options), deps_(deps), plan_(deps.executor.limits()) {
  const model::StepLimits& limits = deps.executor.limits();
  const int64_t rows = options.running_max;
  BH_CHECK(rows > 0 && rows <= limits.rows_max && rows <= limits.slices_max &&
               rows <= limits.logits_rows_max,
           "every running sequence has a row in one forward");
  sequences_.reserve(options.running_max);
}

StepOutcome DecodePool::step(wire::PoolEvents& events) {
  accept(events);
  if (sequences_.empty()) return StepOutcome::kIdle;
  reserve();
  plan();
  // The pages of the plan will be verified here, and once more before commit lets a token out.
  deps_.executor.run(plan_);
  return commit(events);
}

void DecodePool::accept(wire::PoolEvents& events) {
  while (sequences_.size() < options_.running_max) {
    auto handoff = deps_.link.receive();
    if (!handoff) return;
    const wire::Slot slot = handoff->state.slot;
    BH_CHECK(handoff->state.unwritten().size() == 1, "decode continues from one fresh token");
    sequences_.push_back({std::move(handoff->state), std::move(handoff->pages)});
    events.on_accepted(slot);
  }
}

void DecodePool::reserve() {
  for (Sequence& sequence : sequences_) sequence.pages.cover(sequence.state.written + 1);
}

void DecodePool::plan() {
  plan_.clear();
  for (const Sequence& sequence : sequences_) {
    plan_.add(engine::slice_of(sequence, 1, model::LogitsFor::kLast));
  }
}

StepOutcome DecodePool::commit(wire::PoolEvents& events) {
  StepOutcome outcome = StepOutcome::kCommitted;
  size_t kept = 0;
  for (size_t row = 0; row < sequences_.size(); ++row) {
    Sequence& sequence = sequences_[row];
    sequence.state.written += 1;
    auto choice = deps_.sampler.sample(deps_.executor.logits(row), sequence.state);
    const Settled settled = engine::settle(sequence, std::move(choice), events);
    if (settled == Settled::kGoesOn) {
      if (kept != row) sequences_[kept] = std::move(sequence);
      ++kept;
      continue;
    }
    if (settled == Settled::kFailed) outcome = StepOutcome::kFailed;
    sequence.pages.clear();
    events.on_released(sequence.state.slot);
  }
  sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(kept), sequences_.end());
  return outcome;
}

void DecodePool::abort(wire::Slot slot, wire::PoolEvents& events) {
  const auto found =
      std::find_if(sequences_.begin(), sequences_.end(),
                   [slot](const Sequence& sequence) { return sequence.state.slot == slot; });
  if (found != sequences_.end()) {
    sequences_.erase(found);
  } else if (!deps_.link.withdraw(slot)) {
    return;
  }
  events.on_released(slot);
}

}  // namespace bulkhead::decode
