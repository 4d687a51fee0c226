#include "engine/step_guard.h"

#include <algorithm>
#include <string>

#include "kv/integrity/fault_port.h"
#include "kv/integrity/isolate.h"
#include "kv/integrity/stamp.h"
#include "wire/faults.h"

namespace bulkhead::engine {
namespace {

using kv::integrity::Kind;
using kv::integrity::Mode;
using kv::integrity::Phase;
using kv::integrity::Reading;

class NoGuard final : public StepGuard {
 public:
  bool before(StepPlan&, std::span<Sequence>) override { return true; }
  void after() override {}
  void wrote(Sequence&, int32_t) override {}
  bool holds(kv::PageTable&, std::span<const model::TokenId>, wire::RequestId) override {
    return true;
  }
  void not_finite(const Sequence&) override {}
};

class PageGuard final : public StepGuard {
 public:
  PageGuard(kv::PagePool& pages, size_t sequences_max)
      : pages_(pages), tracker_(pages.integrity()) {
    readings_.reserve(sequences_max);
    failed_.resize(sequences_max);
    if (tracker_.is_on()) stamped_page_tokens_ = pages.layout().page_tokens;
  }

  bool before(StepPlan& plan, std::span<Sequence> sequences) override;
  void after() override { compare(Phase::kAfter); }
  void wrote(Sequence& sequence, int32_t first) override;
  bool holds(kv::PageTable& pages, std::span<const model::TokenId> text,
             wire::RequestId reader) override;
  void not_finite(const Sequence& sequence) override;

 private:
  bool compare(Phase phase);
  bool cannot_be_read(const Reading& reading) const;

  kv::PagePool& pages_;
  kv::integrity::Tracker& tracker_;
  std::vector<Reading> readings_;  // of the plan, slice by slice
  std::span<Sequence> sequences_;  // theirs
};

bool PageGuard::before(StepPlan& plan, std::span<Sequence> sequences) {
  readings_.clear();
  sequences_ = sequences;
  for (size_t i = 0; i < plan.slices().size(); ++i) {
    const Sequence& sequence = sequences[i];
    readings_.push_back({plan.slices()[i].pages, sequence.pages.leases(),
                         kv::label_of(sequence.state.cache.tenant), sequence.state.id});
  }
  if (kv::integrity::FaultPort* port = pages_.faults()) {
    port->after_snapshot_build(readings_);
    for (size_t i = 0; i < readings_.size(); ++i) plan.set_pages(i, readings_[i].pages);
  }
  return compare(Phase::kBefore);
}

// Fills failed_; true when none did.
bool PageGuard::compare(Phase phase) {
  some_failed_ = false;
  if (tracker_.check(readings_, phase, failed_) == 0) return true;
  for (size_t i = 0; i < readings_.size(); ++i) {
    if (failed_[i] == 0) continue;
    if (tracker_.mode() == Mode::kAbort) {
      kv::integrity::isolate(pages_, readings_[i], phase);
    } else {
      sequences_[i].pages.distrust();
      if (!cannot_be_read(readings_[i])) {
        failed_[i] = 0;
        continue;
      }
    }
    some_failed_ = true;
  }
  return !some_failed_;
}

// No mode lets a step read outside of the arena.
bool PageGuard::cannot_be_read(const Reading& reading) const {
  const kv::PageId total = pages_.counts().total;
  return reading.pages.size() < reading.expected.size() ||
         std::any_of(
             reading.pages.begin(), reading.pages.end(),
             [total](kv::PageId page) { return page < 0 || page >= total; });
}

void PageGuard::wrote(Sequence& sequence, int32_t first) {
  kv::integrity::stamp_pages(tracker_, sequence.pages, sequence.state.written_tokens(), first);
}

bool PageGuard::holds(kv::PageTable& pages, std::span<const model::TokenId> text,
                      wire::RequestId reader) {
  const auto foreign = kv::integrity::find_foreign_page(tracker_, pages, text);
  if (!foreign) return true;
  kv::integrity::tell_foreign_page(tracker_, pages, *foreign, Phase::kCommit, reader);
  if (tracker_.mode() != Mode::kAbort) {
    pages.distrust();
    return true;
  }
  pages_.quarantine(pages.leases()[*foreign].page());
  return false;
}

void PageGuard::not_finite(const Sequence& sequence) {
  tracker_.found({.kind = Kind::kNonFinite, .phase = Phase::kAfter, .reader = sequence.state.id});
}

}  // namespace

std::unique_ptr<StepGuard> make_step_guard(kv::PagePool& pages, size_t sequences_max) {
  if (!pages.integrity().is_on() && pages.faults() == nullptr) return std::make_unique<NoGuard>();
  return std::make_unique<PageGuard>(pages, sequences_max);
}

void end_refused(Sequence& sequence, wire::PoolEvents& events) {
  const wire::Slot slot = sequence.state.slot;
  events.on_end(slot, {wire::FinishReason::kError, wire::TokenId{-1},
                       wire::fault(wire::kIntegrity, std::string(wire::kIntegrityMessage))});
  sequence.pages.clear();
  events.on_released(slot);
}

}  // namespace bulkhead::engine
