// The two pools as the request's owner sees them, and what they tell it.
//
// Threads: everything here runs on the step thread, except PrefillPort::pages().
// Invariants: an admitted request is in exactly one of prefill, the link, decode, until its one
// on_released(); after on_end() a request gets no token; after on_released() nothing at all, and
// everything the pools held for it is back.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "wire/generate.h"

namespace bulkhead::wire {

// The owner's short name for an admitted request; free for another one after on_released().
using Slot = uint32_t;

// Why a request ends by its own doing.
struct Ending {
  FinishReason reason = FinishReason::kStop;
  TokenId stop_id = -1;
  std::optional<base::Error> error;
};

class PoolEvents {
 public:
  virtual ~PoolEvents() = default;
  virtual void on_token(Slot slot, TokenEvent event) = 0;
  // The prompt is in the cache and the sequence was offered to decode.
  virtual void on_offered(Slot slot) = 0;
  // Decode took the sequence over.
  virtual void on_accepted(Slot slot) = 0;
  virtual void on_end(Slot slot, Ending ending) = 0;
  virtual void on_released(Slot slot) = 0;
};

enum class StepOutcome {
  kIdle,       // there was nothing to run
  kCommitted,  // the step ran and every sequence in it went on or ended well
  kFailed,     // the step ran; at least one sequence ended with an error of its own
};

struct PageGauges {
  int32_t total = 0;
  int32_t free = 0;  // neither used nor promised to an admitted request
};

class PrefillPort {
 public:
  virtual ~PrefillPort() = default;
  // Takes the request over when its worst case fits now; otherwise leaves it as it is and says no.
  virtual bool admit(GenerateRequest& request, Slot slot) = 0;
  // Runs at most one chunk.
  virtual StepOutcome step(PoolEvents& events) = 0;
  // Ends the request early, if it is here; on_released() follows, at once or in a later step.
  virtual void abort(Slot slot, PoolEvents& events) = 0;
  // Any thread.
  virtual PageGauges pages() const = 0;
};

class DecodePort {
 public:
  virtual ~DecodePort() = default;
  // Accepts what prefill offered and runs one token for every sequence.
  virtual StepOutcome step(PoolEvents& events) = 0;
  // As PrefillPort::abort(), for a sequence on its way here too.
  virtual void abort(Slot slot, PoolEvents& events) = 0;
};

}  // namespace bulkhead::wire
