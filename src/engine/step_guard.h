// Stands between a plan and the model, and between the model and the client: what a step reads is
// compared before it reads and again before anything is emitted.
//
// Threads: step thread. Invariants: with the tracker off and no fault port, none of this looks at a
// page; what is compared is the memory that the model is given; a sequence that failed is in no
// forward and emits nothing; neighbours are not touched, unless they hold a page that was
// withdrawn.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/executor.h"
#include "engine/sequence.h"
#include "kv/page_pool.h"

namespace bulkhead::engine {

class StepGuard {
 public:
  virtual ~StepGuard() = default;
  // Slice i of the plan belongs to sequences[i]. False when some must not run: failed() says which,
  // their pages are dealt with, and the plan has to be made again without them. In mode observe
  // they run, and the prefix index gets nothing of them. The sequences stay where they are until
  // after().
  virtual bool before(StepPlan& plan, std::span<Sequence> sequences) = 0;
  // The step has read. What fails now has no token.
  virtual void after() = 0;
  // Of the last before() or after().
  bool failed(size_t sequence) const { return some_failed_ && failed_[sequence] != 0; }
  // The sequence's tokens from `first` on were written: their pages are stamped.
  virtual void wrote(Sequence& sequence, int32_t first) = 0;
  // One more token was written: its page is stamped when it is full. Any other token costs no call.
  void wrote_token(Sequence& sequence) {
    const int32_t written = sequence.state.written;
    if (stamped_page_tokens_ != 0 && written % stamped_page_tokens_ == 0) {
      wrote(sequence, written - 1);
    }
  }
  // Whether the table's pages, all of them stamped, hold `text`. One that does not is withdrawn. In
  // mode observe it is told, and the prefix index gets nothing more of the table.
  virtual bool holds(kv::PageTable& pages, std::span<const model::TokenId> text,
                     wire::RequestId reader) = 0;
  // The first `tokens` tokens of the sequence.
  bool holds_own_text(Sequence& sequence, int32_t tokens) {
    return holds(sequence.pages, sequence.state.written_tokens().first(static_cast<size_t>(tokens)),
                 sequence.state.id);
  }
  // The sampler found no number in the sequence's logits.
  virtual void not_finite(const Sequence& sequence) = 0;

 protected:
  // What every sequence of every step is asked, so that the answer is no call.
  int32_t stamped_page_tokens_ = 0;  // tokens of a page; 0: pages get no stamps
  bool some_failed_ = false;
  std::vector<uint8_t> failed_;  // by sequence
};

std::unique_ptr<StepGuard> make_step_guard(kv::PagePool& pages, size_t sequences_max);

// Ends a sequence that failed, with an error that may be tried again, and drops its pages.
void end_refused(Sequence& sequence, wire::PoolEvents& events);

}  // namespace bulkhead::engine
