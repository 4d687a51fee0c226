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
  BH_CHECK((deps.index == nullptr) != (deps.own_pages == nullptr), "pages are shared or its own");
  guard_ = engine::make_step_guard(read_pages(), options.running_max);
  sequences_.reserve(options.running_max);
}

// The pool that holds what decode reads.
kv::PagePool& DecodePool::read_pages() const {
  return deps_.own_pages != nullptr ? *deps_.own_pages : deps_.index->pool();
}

bool DecodePool::reserve(const wire::SequenceState& state) {
  if (state.max_tokens <= 1) return true;  // ends with its first token, in prefill
  return deps_.link.reserve(state.slot, state.tokens_max());
}

std::optional<wire::PageGauges> DecodePool::pages() const {
  if (deps_.own_pages == nullptr) return std::nullopt;
  const kv::PageCounts counts = deps_.own_pages->counts();
  return wire::PageGauges{counts.total, counts.available, counts.cached, counts.quarantined};
}

bool DecodePool::prepare(wire::PoolEvents& events) {
  deps_.link.advance();
  accept(events);
  return cover();
}

wire::StepReport DecodePool::step(wire::PoolEvents& events) {
  if (sequences_.empty()) {
    // Whoever steps should not rest while the link has work.
    return {deps_.link.in_transit() > 0 ? StepOutcome::kCommitted : StepOutcome::kIdle, 0, 0};
  }
  StepOutcome outcome = StepOutcome::kCommitted;
  plan();
  // A page that is withdrawn may be another sequence's too, so whoever is left is looked at again.
  while (!guard_->before(plan_, sequences_)) {
    outcome = StepOutcome::kFailed;
    drop_refused(events);
    if (sequences_.empty()) return {outcome, 0, 0};
    plan();
  }
  const int32_t rows = plan_.rows();
  deps_.executor.run(plan_);
  guard_->after();
  return {std::max(outcome, commit(events)), rows, rows};
}

void DecodePool::drop_refused(wire::PoolEvents& events) {
  size_t kept = 0;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (guard_->failed(i)) {
      engine::end_refused(sequences_[i], events);
    } else if (kept++ != i) {
      sequences_[kept - 1] = std::move(sequences_[i]);
    }
  }
  sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(kept), sequences_.end());
}

void DecodePool::accept(wire::PoolEvents& events) {
  while (sequences_.size() < options_.running_max) {
    auto handoff = deps_.link.receive();
    if (!handoff) return;
    const wire::Slot slot = handoff->state.slot;
    BH_CHECK(handoff->state.unwritten().size() == 1, "decode continues from one fresh token");
    Sequence arrived{std::move(handoff->state), std::move(handoff->pages)};
    events.on_accepted(slot);
    if (handoff->intact && guard_->holds_own_text(arrived, arrived.state.written)) {
      sequences_.push_back(std::move(arrived));
    } else {
      engine::end_refused(arrived, events);
    }
  }
}

bool DecodePool::cover() {
  for (Sequence& sequence : sequences_) {
    while (!sequence.pages.cover(sequence.state.written + 1)) {
      BH_CHECK(deps_.index != nullptr, "own pages were promised at admission");
      if (!deps_.index->make_room(1)) return false;
    }
  }
  return true;
}

// Where prefill's pages are decode's too, whoever comes next may find them.
void DecodePool::keep(Sequence& sequence) {
  if (deps_.index == nullptr) return;
  const int32_t page_tokens = read_pages().layout().page_tokens;
  const int32_t whole = sequence.state.written / page_tokens * page_tokens;
  if (guard_->holds_own_text(sequence, whole)) engine::keep_for_reuse(sequence, *deps_.index);
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
    if (guard_->failed(row)) {
      outcome = StepOutcome::kFailed;
      engine::end_refused(sequence, events);
      continue;
    }
    sequence.state.written += 1;
    guard_->wrote_token(sequence);
    auto choice = deps_.sampler.sample(deps_.executor.logits(row), sequence.state);
    if (!choice.ok() && choice.error().field == sampling::kNotFinite) guard_->not_finite(sequence);
    const Settled settled = engine::settle(sequence, std::move(choice), events);
    if (settled == Settled::kGoesOn) {
      if (kept != row) sequences_[kept] = std::move(sequence);
      ++kept;
      continue;
    }
    if (settled == Settled::kFailed) {
      outcome = StepOutcome::kFailed;
    } else {
      keep(sequence);
    }
    sequence.pages.clear();
    events.on_released(sequence.state.slot);
  }
  sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(kept), sequences_.end());
  return outcome;
}

std::vector<Sequence>::iterator DecodePool::find(wire::Slot slot) {
  return std::find_if(sequences_.begin(), sequences_.end(),
                      [slot](const Sequence& sequence) { return sequence.state.slot == slot; });
}

std::optional<wire::SequenceState> DecodePool::preempt(wire::Slot slot) {
  wire::SequenceState state;
  if (const auto found = find(slot); found != sequences_.end()) {
    // Until others take them, its own pages wait for it in the index.
    keep(*found);
    state = std::move(found->state);
    sequences_.erase(found);
  } else if (auto handoff = deps_.link.withdraw(slot)) {
    state = std::move(handoff->state);
  } else {
    return std::nullopt;
  }
  state.written = 0;
  return state;
}

void DecodePool::abort(wire::Slot slot, wire::PoolEvents& events) {
  const auto found = find(slot);
  if (found != sequences_.end()) {
    keep(*found);
    sequences_.erase(found);
  } else if (!deps_.link.withdraw(slot)) {
    return;
  }
  events.on_released(slot);
}

}  // namespace bulkhead::decode
