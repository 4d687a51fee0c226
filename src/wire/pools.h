// The two pools as the request's owner sees them, and what they tell it.
//
// Threads: everything here runs on the step thread, except pages().
// Invariants: an admitted request is in exactly one of prefill, the link, decode, until its one
// on_released(), or until it is preempted or returned; after on_end() a request gets no token;
// after on_released() nothing at all, and everything the pools held for it is back.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "wire/generate.h"
#include "wire/sequence_state.h"

namespace bulkhead::wire {

// Why a request ends by its own doing.
struct Ending {
  FinishReason reason = FinishReason::kStop;
  TokenId stop_id = -1;
  std::optional<base::Error> error;
};

class PoolEvents {
 public:
  virtual ~PoolEvents() = default;
  virtual void on_prompt(Slot slot, PromptEvent event) = 0;
  virtual void on_token(Slot slot, TokenEvent event) = 0;
  // The prompt is in the cache and the sequence was offered to decode.
  virtual void on_offered(Slot slot) = 0;
  // Decode took the sequence over.
  virtual void on_accepted(Slot slot) = 0;
  virtual void on_end(Slot slot, Ending ending) = 0;
  virtual void on_released(Slot slot) = 0;
  // So many tokens of the prompt were in a cache: from pools that learn it after admission.
  virtual void on_cached(Slot slot, int32_t tokens) = 0;
  // The pools could not run the request and give it back as if it had not been admitted; nothing of
  // it was told, and they hold nothing for it. Instead of on_released().
  virtual void on_returned(Slot slot, SequenceState state) = 0;
};

enum class StepOutcome {
  kIdle,       // there was nothing to run
  kCommitted,  // the step ran and every sequence in it went on or ended well
  kFailed,     // the step ran; at least one sequence ended with an error of its own
};

struct StepReport {
  StepOutcome outcome = StepOutcome::kIdle;
  int32_t sequences = 0;
  int32_t tokens = 0;  // rows of the forward
};

struct Admission {
  int32_t cached_tokens = 0;  // that need not be computed
};

class PrefillPort {
 public:
  virtual ~PrefillPort() = default;
  // Takes the sequence over when what it has now and its next token fit with `spare_pages` to go;
  // otherwise leaves it as it is.
  virtual std::optional<Admission> admit(SequenceState& state, int32_t spare_pages) = 0;
  // Runs at most one chunk.
  virtual StepReport step(PoolEvents& events) = 0;
  // Ends the request early, if it is here; on_released() follows, at once or in a later step.
  virtual void abort(Slot slot, PoolEvents& events) = 0;
  // Takes the sequence back without its pages, as if it had not been admitted; nothing when it is
  // not here.
  virtual std::optional<SequenceState> preempt(Slot slot) = 0;
  // The prefix index forgets everything.
  virtual void flush_cache() = 0;
  // Nobody has anything to do now: time for a bounded piece of what can wait.
  virtual void rest() {}
  // Any thread.
  virtual PageGauges pages() const = 0;
};

class DecodePort {
 public:
  virtual ~DecodePort() = default;
  // Before prefill is asked: promises all pages that the sequence may ever need here, or says "not
  // now". A pool that goes on in prefill's pages has nothing to promise.
  virtual bool reserve(const SequenceState& state) = 0;
  // The request will not come, or is gone: what is left of its promise is free again.
  virtual void unreserve(Slot slot) = 0;
  // Accepts what prefill offered and gets every sequence the page its next token needs. False when
  // the cache has none left: then somebody has to be preempted, and this is called again.
  virtual bool prepare(PoolEvents& events) = 0;
  // Runs one token for every sequence, after prepare() said yes.
  virtual StepReport step(PoolEvents& events) = 0;
  // As PrefillPort's, for a sequence on its way here too. A pool that made promises never says no
  // in prepare(), so nobody preempts in it.
  virtual void abort(Slot slot, PoolEvents& events) = 0;
  virtual std::optional<SequenceState> preempt(Slot slot) = 0;
  // Its own pages; nothing where it goes on in prefill's. Any thread.
  virtual std::optional<PageGauges> pages() const = 0;
};

}  // namespace bulkhead::wire
