// Turns prompts into cache pages and a first token, in chunks, and offers them to decode.
//
// Threads: step thread only, except pages(). Invariants: prompts run first come, first served; a
// chunk holds at most chunk_tokens tokens, of one prompt or of several short ones; a request is
// admitted only if the pages of its worst case (prompt and max_tokens) can be promised, so that
// nothing admitted can run out of pages; the first token settles like any other, so a request for
// one token never reaches decode.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/executor.h"
#include "engine/sequence.h"
#include "kv/page_pool.h"
#include "sampling/sampler.h"
#include "transfer/link.h"
#include "wire/pools.h"

namespace bulkhead::prefill {

struct PrefillOptions {
  int32_t chunk_tokens = 512;   // of one step; at most the model's rows_max
  uint32_t sequences_max = 64;  // prompts being worked on
};

struct PrefillDeps {
  kv::PagePool& pages;
  engine::Executor& executor;
  sampling::Sampler& sampler;
  transfer::Link& link;
};

class PrefillPool final : public wire::PrefillPort {
 public:
  PrefillPool(const PrefillOptions& options, const PrefillDeps& deps);

  bool admit(wire::GenerateRequest& request, wire::Slot slot) override;
  wire::StepOutcome step(wire::PoolEvents& events) override;
  void abort(wire::Slot slot, wire::PoolEvents& events) override;
  wire::PageGauges pages() const override;

  // From the next step on; 1 .. the model's rows_max. The answer does not depend on it.
  void set_chunk_tokens(int32_t tokens);
  std::span<const engine::Sequence> sequences() const { return sequences_; }

 private:
  void plan();
  wire::StepOutcome commit(wire::PoolEvents& events);

  PrefillOptions options_;
  PrefillDeps deps_;
  std::vector<engine::Sequence> sequences_;  // oldest first
  engine::StepPlan plan_;                    // slice i belongs to sequences_[i]
};

}  // namespace bulkhead::prefill
