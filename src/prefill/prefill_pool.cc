#include "prefill/prefill_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::prefill {

using engine::Sequence;
using engine::Settled;
using wire::StepOutcome;

PrefillPool::PrefillPool(const PrefillOptions& options, const PrefillDeps& deps)
    : options_(options), deps_(deps), plan_(deps.executor.limits()) {
  BH_CHECK(options.sequences_max > 0, "room for at least one prompt");
  set_chunk_tokens(options.chunk_tokens);
  sequences_.reserve(options.sequences_max);
}

void PrefillPool::set_chunk_tokens(int32_t tokens) {
  BH_CHECK(tokens > 0 && tokens <= deps_.executor.limits().rows_max, "a chunk fits one forward");
  options_.chunk_tokens = tokens;
}

wire::PageGauges PrefillPool::pages() const {
  const kv::PageCounts counts = deps_.pages.counts();
  return {counts.total, counts.available};
}

bool PrefillPool::admit(wire::GenerateRequest& request, wire::Slot slot) {
  if (sequences_.size() >= options_.sequences_max) return false;
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  auto pages = kv::PageTable::create(deps_.pages, prompt_tokens + request.max_tokens);
  if (!pages) return false;
  sequences_.push_back({wire::SequenceState(std::move(request), slot), std::move(*pages)});
  return true;
}

StepOutcome PrefillPool::step(wire::PoolEvents& events) {
  plan();
  if (plan_.empty()) return StepOutcome::kIdle;
  // A prefix read from the cache will be verified here, on the plan the executor reads.
  deps_.executor.run(plan_);
  return commit(events);
}

void PrefillPool::plan() {
  plan_.clear();
  const model::StepLimits& limits = deps_.executor.limits();
  for (Sequence& sequence : sequences_) {
    const int32_t budget = options_.chunk_tokens - plan_.rows();
    if (budget <= 0 || plan_.full() || plan_.logits_rows() >= limits.logits_rows_max) break;
    const auto left = static_cast<int32_t>(sequence.state.unwritten().size());
    const int32_t tokens = std::min(left, budget);
    sequence.pages.cover(sequence.state.written + tokens);
    const auto logits = tokens == left ? model::LogitsFor::kLast : model::LogitsFor::kNone;
    plan_.add(engine::slice_of(sequence, static_cast<size_t>(tokens), logits));
  }
}

StepOutcome PrefillPool::commit(wire::PoolEvents& events) {
  StepOutcome outcome = StepOutcome::kCommitted;
  size_t complete = 0;  // a prefix of sequences_: only the last slice of a step can be partial
  for (const model::SequenceSlice& slice : plan_.slices()) {
    Sequence& sequence = sequences_[complete];
    sequence.state.written += static_cast<int32_t>(slice.tokens.size());
    if (slice.logits == model::LogitsFor::kNone) break;
    auto choice = deps_.sampler.sample(deps_.executor.logits(complete), sequence.state);
    ++complete;
    const wire::Slot slot = sequence.state.slot;
    const Settled settled = engine::settle(sequence, std::move(choice), events);
    if (settled == Settled::kGoesOn) {
      deps_.link.offer({std::move(sequence.state), std::move(sequence.pages)});
      events.on_offered(slot);
      continue;
    }
    if (settled == Settled::kFailed) outcome = StepOutcome::kFailed;
    sequence.pages.clear();
    events.on_released(slot);
  }
  sequences_.erase(sequences_.begin(), sequences_.begin() + static_cast<std::ptrdiff_t>(complete));
  return outcome;
}

void PrefillPool::abort(wire::Slot slot, wire::PoolEvents& events) {
  const auto found =
      std::find_if(sequences_.begin(), sequences_.end(),
                   [slot](const Sequence& sequence) { return sequence.state.slot == slot; });
  if (found == sequences_.end()) return;
  sequences_.erase(found);
  events.on_released(slot);
}

}  // namespace bulkhead::prefill
