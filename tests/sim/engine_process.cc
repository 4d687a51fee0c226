#include <algorithm>
#include <array>

#include "base/check.h"
#include "kv/invariants.h"
#include "sim/oracle_decoder.h"
#include "sim/process.h"
#include "support/engine_stack.h"

namespace bulkhead::sim {
namespace {

using testing::EngineStack;
using testing::StackOptions;

StackOptions stack_options(const SwarmConfig& config, Damage& damage, Damage& filled_damage) {
  StackOptions out;
  out.integrity = config.integrity;
  out.faults = &damage.injector();
  out.prefill_faults = &filled_damage.injector();
  out.page_tokens = kPageTokens;
  out.pages = config.pages;
  out.prefill_pages = config.placement == Placement::kSplit ? config.prefill_pages : 0;
  out.link_pages = config.link_pages;
  out.chunk_tokens = config.chunk_tokens;
  out.running_max = config.running_max;
  out.queued_max = 64;
  out.prefix_cache = config.prefix_cache;
  out.key_bits = config.key_bits;
  return out;
}

// Both pools, the link, the index and the router, in one process.
class EngineProcess final : public Process {
 public:
  EngineProcess(const SwarmConfig& config, const Birth& birth, const base::Clock& clock)
      : decoder_(config.layers, {.rows_max = 64, .logits_rows_max = 64, .slices_max = 16}),
        damage_(birth.nonce),
        filled_damage_(birth.nonce + 1),
        stack_(decoder_, stack_options(config, damage_, filled_damage_), &clock),
        filled_labels_(stack_.filled_pages().counts().total),
        labels_(stack_.pages().counts().total),
        split_(config.placement == Placement::kSplit) {}

  void step() override { stack_.step(); }

  std::string audit() override {
    if (damage_.struck() || filled_damage_.struck()) return {};
    return audit_books();
  }
  std::string audit_books() {
    if (const auto found = stack_.violations(); !found.empty()) return kv::describe(found);
    std::string wrong;
    for (const auto& one : stack_.prefill().sequences()) wrong += filled_labels_.look(one);
    LabelBook& decoded = split_ ? labels_ : filled_labels_;
    for (const auto& one : stack_.decode().sequences()) wrong += decoded.look(one);
    return wrong;
  }

  bool is_quiet() const override {
    const wire::GeneratorStatus status = stack_.router().status();
    return status.running == 0 && status.waiting == 0;
  }

  std::string audit_quiet() override {
    std::string wrong = audit_books();
    stack_.index().clear();
    for (kv::PagePool* pool : {&stack_.pages(), &stack_.filled_pages()}) {
      wrong += kv::describe(kv::validate_idle(pool->snapshot()));
    }
    return wrong;
  }

  wire::Generator* generator() override { return &stack_.router(); }
  bool can_be_damaged() const override { return true; }
  void damage(FaultKind kind, uint64_t bits) override {
    (split_ && bits % 2 == 0 ? filled_damage_ : damage_).order(kind);
  }
  void count(RunStats& stats) const override {
    count_decoder(decoder_, stats);
    stats.struck += damage_.done() + filled_damage_.done();
    count_pool(stack_.pages(), stats);
    if (split_) count_pool(stack_.filled_pages(), stats);
    stats.evicted_pages += stack_.index().evicted_pages();
  }

 private:
  OracleDecoder decoder_;
  Damage damage_;         // of the one pool, or of decode's
  Damage filled_damage_;  // of prefill's
  mutable EngineStack stack_;
  LabelBook filled_labels_;
  LabelBook labels_;
  const bool split_;
};

}  // namespace

std::string LabelBook::look(const engine::Sequence& sequence) {
  const uint8_t tenant = sequence.state.cache.tenant[0];
  for (const kv::Lease& lease : sequence.pages.leases()) {
    Life& life = lives_[static_cast<size_t>(lease.page())];
    if (life.tag != lease.ref().tag) {
      life = {lease.ref().tag, tenant};
    } else if (life.tenant != tenant) {
      return "a page of one tenant is read for another; ";
    }
  }
  return {};
}

void Damage::order(FaultKind kind) {
  using kv::integrity::Fault;
  const auto number = static_cast<size_t>(kind) - static_cast<size_t>(FaultKind::kStaleMapping);
  // In the order of FaultKind.
  constexpr std::array<Fault, kv::integrity::kFaults> kFaults = {
      Fault::kStaleMapping,  Fault::kOverwrittenEntry, Fault::kOutOfRangeId,    Fault::kWrongOrder,
      Fault::kPermutedTable, Fault::kDoubleAllocation, Fault::kMissedReference, Fault::kTagFlip,
      Fault::kWrongLabel,    Fault::kPageFlip,
  };
  injector_.order(kFaults[number]);
  ++ordered_;
}

void count_pool(const kv::PagePool& pool, RunStats& stats) {
  const uint64_t drawn = pool.snapshot().last_tag & ((uint64_t{1} << 48) - 1);
  // One tag for each page at the start, then one when it is taken and one when it comes back.
  stats.pages += (drawn - static_cast<uint64_t>(pool.counts().total)) / 2;
  const kv::integrity::Report report = pool.integrity().report();
  stats.checks += report.checks;
  stats.entries += report.pages_checked;
  static_assert(kv::integrity::kKinds == static_cast<size_t>(Mechanism::kBooks) + 1);
  for (size_t i = 0; i < kv::integrity::kKinds; ++i) stats.noticed[i] += report.mismatches[i];
}

void count_decoder(const OracleDecoder& decoder, RunStats& stats) {
  stats.tokens += decoder.tokens();
  stats.wrong_rows += decoder.wrong_reads();
}

std::unique_ptr<Process> make_engine(const SwarmConfig& config, const Birth& birth,
                                     const base::Clock& clock) {
  return std::make_unique<EngineProcess>(config, birth, clock);
}

}  // namespace bulkhead::sim
