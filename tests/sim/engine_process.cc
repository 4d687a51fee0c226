#include <algorithm>

#include "base/check.h"
#include "kv/invariants.h"
#include "sim/oracle_decoder.h"
#include "sim/process.h"
#include "support/engine_stack.h"

namespace bulkhead::sim {
namespace {

using testing::EngineStack;
using testing::StackOptions;

StackOptions stack_options(const SwarmConfig& config) {
  StackOptions out;
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
  EngineProcess(const SwarmConfig& config, const base::Clock& clock)
      : decoder_(config.layers, {.rows_max = 64, .logits_rows_max = 64, .slices_max = 16}),
        stack_(decoder_, stack_options(config), &clock),
        filled_labels_(stack_.filled_pages().counts().total),
        labels_(stack_.pages().counts().total),
        split_(config.placement == Placement::kSplit) {}

  void step() override { stack_.step(); }

  std::string audit() override {
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
    std::string wrong = audit();
    stack_.index().clear();
    for (kv::PagePool* pool : {&stack_.pages(), &stack_.filled_pages()}) {
      wrong += kv::describe(kv::validate_idle(pool->snapshot()));
    }
    return wrong;
  }

  wire::Generator* generator() override { return &stack_.router(); }
  uint64_t tokens() const override { return decoder_.tokens(); }
  uint64_t pages_taken() const override {
    return sim::pages_taken(stack_.pages()) +
           (split_ ? sim::pages_taken(stack_.filled_pages()) : 0);
  }
  uint64_t evicted_pages() const override { return stack_.index().evicted_pages(); }

 private:
  OracleDecoder decoder_;
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

uint64_t pages_taken(const kv::PagePool& pool) {
  const uint64_t drawn = pool.snapshot().last_tag & ((uint64_t{1} << 48) - 1);
  // One tag for each page at the start, then one when it is taken and one when it comes back.
  return (drawn - static_cast<uint64_t>(pool.counts().total)) / 2;
}

std::unique_ptr<Process> make_engine(const SwarmConfig& config, const Birth&,
                                     const base::Clock& clock) {
  return std::make_unique<EngineProcess>(config, clock);
}

}  // namespace bulkhead::sim
