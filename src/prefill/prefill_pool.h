// Turns prompts into cache pages and a first token, in chunks, and offers them to decode.
//
// Threads: step thread only, except pages(). Invariants: prompts run in the order they were
// admitted; a chunk holds at most chunk_tokens tokens, of one prompt or of several short ones; a
// sequence is admitted only with the pages of all it has now promised (and of its next token, where
// decode goes on in them), so that prefill cannot run out of pages; what the prefix index knows is
// not computed again, and the last token always is; a prompt enters the index once its logits have
// proved finite; the first token settles like any other, so a request for one token never reaches
// decode; what a step reads is verified before it and again before it emits anything
// (engine/step_guard.h), and a sequence that fails ends alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/executor.h"
#include "engine/sequence.h"
#include "engine/step_guard.h"
#include "kv/integrity/scrubber.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "sampling/sampler.h"
#include "transfer/link.h"
#include "wire/pools.h"

namespace bulkhead::prefill {

struct PrefillOptions {
  int32_t chunk_tokens = 512;   // of one step; at most the model's rows_max
  uint32_t sequences_max = 64;  // prompts being worked on
  // Decode goes on in the pages that prefill filled, so admission thinks of its next token too.
  bool shares_pages = true;
  kv::integrity::ScrubOptions scrub = {};
};

struct PrefillDeps {
  kv::PagePool& pages;
  kv::PrefixIndex& index;
  engine::Executor& executor;
  sampling::Sampler& sampler;
  transfer::Link& link;
};

class PrefillPool final : public wire::PrefillPort {
 public:
  PrefillPool(const PrefillOptions& options, const PrefillDeps& deps);

  std::optional<wire::Admission> admit(wire::SequenceState& state, int32_t spare_pages) override;
  wire::StepReport step(wire::PoolEvents& events) override;
  void abort(wire::Slot slot, wire::PoolEvents& events) override;
  std::optional<wire::SequenceState> preempt(wire::Slot slot) override;
  void flush_cache() override { deps_.index.clear(); }
  void rest() override { scrubber_.at_rest(); }
  wire::PageGauges pages() const override;

  // From the next step on; 1 .. the model's rows_max. The answer does not depend on it.
  void set_chunk_tokens(int32_t tokens);
  std::span<const engine::Sequence> sequences() const { return sequences_; }

 private:
  // Who was refused last, and what there was then: asking again before there is more is in vain.
  struct Refusal {
    wire::RequestId id = 0;
    int32_t room = 0;
    int32_t spare_pages = 0;
  };

  std::vector<engine::Sequence>::iterator find(wire::Slot slot);
  int32_t room() const;
  // Appends the pages that the index has for the sequence, and says how many tokens they hold.
  int32_t find_cached(wire::SequenceState& state, kv::PageTable& pages);
  void plan();
  // Ends whoever the guard found wanting before the step.
  void drop_refused(wire::PoolEvents& events);
  wire::StepOutcome commit(wire::PoolEvents& events);
  wire::StepOutcome finish_prompt(engine::Sequence& sequence, size_t row, wire::PoolEvents& events);
  // False when a row was not finite; the sequence has its end then.
  bool score(engine::Sequence& sequence, int32_t position, size_t first_row, size_t rows,
             wire::PoolEvents& events);

  PrefillOptions options_;
  PrefillDeps deps_;
  std::unique_ptr<engine::StepGuard> guard_;
  kv::integrity::Scrubber scrubber_;
  Refusal refusal_;
  std::vector<engine::Sequence> sequences_;  // oldest first
  engine::StepPlan plan_;                    // slice i belongs to sequences_[i]
};

}  // namespace bulkhead::prefill
