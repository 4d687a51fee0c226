#include "prefill/prefill_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bulkhead::prefill {

using engine::Sequence;
using engine::Settled;
using wire::StepOutcome;

PrefillPool::PrefillPool(const PrefillOptions& options, const PrefillDeps& deps)
    : options_(options),
      deps_(deps),
      guard_(engine::make_step_guard(deps.pages, options.sequences_max)),
      scrubber_(deps.pages, options.scrub),
      plan_(deps.executor.limits()) {
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
  return {counts.total, counts.available, counts.cached, counts.quarantined};
}

int32_t PrefillPool::room() const {
  const kv::PageCounts counts = deps_.pages.counts();
  return counts.available + counts.cached;
}

std::optional<wire::Admission> PrefillPool::admit(wire::SequenceState& state, int32_t spare_pages) {
  if (sequences_.size() >= options_.sequences_max) return std::nullopt;
  if (!options_.shares_pages) spare_pages = 0;  // nobody's answer grows here
  if (refusal_.id == state.id && room() <= refusal_.room && spare_pages >= refusal_.spare_pages) {
    return std::nullopt;
  }
  const int32_t room_now = room();
  const auto tokens = static_cast<int64_t>(state.tokens.size());
  const int64_t needed = options_.shares_pages ? std::min(tokens + 1, state.tokens_max()) : tokens;
  kv::PageTable pages(deps_.pages, state.tokens_max(), kv::label_of(state.cache.tenant));
  const int32_t cached = find_cached(state, pages);
  const int32_t missing =
      deps_.pages.pages_for(needed) - static_cast<int32_t>(pages.pages().size());
  if (!deps_.index.make_room(missing + spare_pages) || !pages.promise(needed)) {
    refusal_ = {state.id, room_now, spare_pages};
    return std::nullopt;
  }
  refusal_ = {};
  state.written = cached;
  // From here on the answer grows without allocating.
  state.tokens.reserve(static_cast<size_t>(state.tokens_max()));
  sequences_.push_back({std::move(state), std::move(pages)});
  return wire::Admission{cached};
}

int32_t PrefillPool::find_cached(wire::SequenceState& state, kv::PageTable& pages) {
  // A score needs the logits of its row, and so the row.
  if (state.wants_scores()) return 0;
  const int32_t cached = deps_.index.match(state.cache.tenant, state.tokens, pages);
  const auto text = std::span(state.tokens).first(static_cast<size_t>(cached));
  if (cached == 0 || guard_->holds(pages, text, state.id)) return cached;
  // Nothing was read yet: the prompt is computed anew.
  pages.clear();
  return 0;
}

wire::StepReport PrefillPool::step(wire::PoolEvents& events) {
  StepOutcome outcome = StepOutcome::kCommitted;
  plan();
  if (plan_.empty()) {
    scrubber_.after_step();  // of decode alone
    return {};
  }
  // A page that is withdrawn may be another sequence's too, so whoever is left is looked at again.
  while (!guard_->before(plan_, sequences_)) {
    outcome = StepOutcome::kFailed;
    drop_refused(events);
    plan();
    if (plan_.empty()) return {outcome, 0, 0};
  }
  const auto sequences = static_cast<int32_t>(plan_.slices().size());
  const int32_t rows = plan_.rows();
  deps_.executor.run(plan_);
  guard_->after();
  outcome = std::max(outcome, commit(events));
  // As many as the step can have filled, so that none are left behind under load.
  scrubber_.after_step(1 + rows / deps_.pages.layout().page_tokens);
  return {outcome, sequences, rows};
}

// Those of the plan alone were looked at, and they are the first.
void PrefillPool::drop_refused(wire::PoolEvents& events) {
  const size_t planned = plan_.slices().size();
  for (size_t i = planned; i-- > 0;) {
    if (!guard_->failed(i)) continue;
    engine::end_refused(sequences_[i], events);
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void PrefillPool::plan() {
  plan_.clear();
  const model::StepLimits& limits = deps_.executor.limits();
  for (Sequence& sequence : sequences_) {
    const int32_t rows_left = options_.chunk_tokens - plan_.rows();
    const int32_t logits_left = limits.logits_rows_max - plan_.logits_rows();
    if (rows_left <= 0 || plan_.full() || logits_left <= 0) break;
    const auto left = static_cast<int32_t>(sequence.state.unwritten().size());
    const bool scores = sequence.state.wants_scores();
    const int32_t tokens = std::min({left, rows_left, scores ? logits_left : rows_left});
    BH_CHECK(sequence.pages.cover(sequence.state.written + tokens), "promised at admission");
    const auto logits = scores           ? model::LogitsFor::kAll
                        : tokens == left ? model::LogitsFor::kLast
                                         : model::LogitsFor::kNone;
    plan_.add(engine::slice_of(sequence, static_cast<size_t>(tokens), logits));
    if (tokens < left) break;  // only the last slice of a step is partial
  }
}

StepOutcome PrefillPool::commit(wire::PoolEvents& events) {
  StepOutcome outcome = StepOutcome::kCommitted;
  size_t done = 0;  // sequences that are through with prefill, always the oldest ones
  size_t row = 0;   // of the logits
  for (const model::SequenceSlice& slice : plan_.slices()) {
    Sequence& sequence = sequences_[done];
    const size_t rows = slice.logits == model::LogitsFor::kAll    ? slice.tokens.size()
                        : slice.logits == model::LogitsFor::kLast ? 1
                                                                  : 0;
    if (guard_->failed(done)) {
      engine::end_refused(sequence, events);
      outcome = StepOutcome::kFailed;
      row += rows;
      ++done;
      continue;
    }
    sequence.state.written += static_cast<int32_t>(slice.tokens.size());
    guard_->wrote(sequence, slice.position);
    const bool failed = slice.logits == model::LogitsFor::kAll &&
                        !score(sequence, slice.position, row, rows, events);
    if (!failed && !sequence.state.unwritten().empty()) {
      deps_.link.written(sequence.state.slot, sequence.pages, sequence.state.written);
      break;
    }
    const StepOutcome ended =
        failed ? StepOutcome::kFailed : finish_prompt(sequence, row + rows - 1, events);
    outcome = std::max(outcome, ended);
    row += rows;
    ++done;
  }
  sequences_.erase(sequences_.begin(), sequences_.begin() + static_cast<std::ptrdiff_t>(done));
  return outcome;
}

// Every token is in the cache and row `row` holds the logits after the last one.
StepOutcome PrefillPool::finish_prompt(Sequence& sequence, size_t row, wire::PoolEvents& events) {
  const wire::Slot slot = sequence.state.slot;
  if (!guard_->holds_own_text(sequence, sequence.state.written)) {
    engine::end_refused(sequence, events);
    return StepOutcome::kFailed;
  }
  Settled settled = Settled::kEnded;
  if (sequence.state.max_tokens == 0) {
    engine::settle_without_token(sequence, events);
  } else {
    auto choice = deps_.sampler.sample(deps_.executor.logits(row), sequence.state);
    if (!choice.ok() && choice.error().field == sampling::kNotFinite) guard_->not_finite(sequence);
    settled = engine::settle(sequence, std::move(choice), events);
  }
  if (settled != Settled::kFailed) engine::keep_for_reuse(sequence, deps_.index);
  if (settled == Settled::kGoesOn) {
    deps_.link.offer({std::move(sequence.state), std::move(sequence.pages)});
    events.on_offered(slot);
    return StepOutcome::kCommitted;
  }
  sequence.pages.clear();
  events.on_released(slot);
  return settled == Settled::kFailed ? StepOutcome::kFailed : StepOutcome::kCommitted;
}

bool PrefillPool::score(Sequence& sequence, int32_t position, size_t first_row, size_t rows,
                        wire::PoolEvents& events) {
  wire::SequenceState& state = sequence.state;
  wire::PromptEvent event;
  event.id = state.id;
  event.position = state.scored;
  // The row of a token holds the logits of the token after it.
  for (size_t i = 0; i < rows && state.scored < state.prompt_tokens; ++i) {
    const int32_t next = position + static_cast<int32_t>(i) + 1;
    if (next != state.scored) continue;  // scored before it was preempted
    auto scored =
        deps_.sampler.score(deps_.executor.logits(first_row + i),
                            state.tokens[static_cast<size_t>(next)], state.prompt_logprobs);
    if (!scored.ok()) {
      guard_->not_finite(sequence);
      const Settled settled = engine::settle(sequence, std::move(scored), events);
      BH_CHECK(settled == Settled::kFailed, "an error ends its sequence");
      sequence.pages.clear();
      events.on_released(state.slot);
      return false;
    }
    scored->id = state.id;
    event.tokens.push_back(std::move(*scored));
    ++state.scored;
  }
  if (!event.tokens.empty()) events.on_prompt(state.slot, std::move(event));
  return true;
}

std::vector<Sequence>::iterator PrefillPool::find(wire::Slot slot) {
  return std::find_if(sequences_.begin(), sequences_.end(),
                      [slot](const Sequence& sequence) { return sequence.state.slot == slot; });
}

void PrefillPool::abort(wire::Slot slot, wire::PoolEvents& events) {
  const auto found = find(slot);
  if (found == sequences_.end()) return;
  sequences_.erase(found);
  events.on_released(slot);
}

std::optional<wire::SequenceState> PrefillPool::preempt(wire::Slot slot) {
  const auto found = find(slot);
  if (found == sequences_.end()) return std::nullopt;
  wire::SequenceState state = std::move(found->state);
  sequences_.erase(found);
  state.written = 0;
  return state;
}

}  // namespace bulkhead::prefill
