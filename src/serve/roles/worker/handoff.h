// How a worker's pool reaches the worker at the other end of a handoff, and how it learns what
// became of it.
//
// Threads: step thread only; nothing blocks. Invariants: what was opened or expected comes to
// exactly one next_end() or, at decode, one receive(); until then the link holds pages of its own
// for it; a request is named by its slot here and by its attempt between workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "transfer/link.h"
#include "transfer/remote/fault.h"
#include "transfer/remote/session.h"
#include "wire/worker_messages.h"

namespace bulkhead::serve::roles {

enum class Opening : uint8_t {
  kDone,
  kWait,  // ask again in a later step
};

struct HandoffEnd {
  wire::Slot slot = 0;
  std::optional<base::Error> error;  // nothing: decode has it
};

// What all sessions of a link, those that are gone too, found wrong with what they heard.
struct HandoffTotals {
  uint64_t damaged_frames = 0;
  uint64_t repeated_frames = 0;  // seen before, or of another session
  uint64_t refused_writes = 0;   // without a grant, of another life, outside, twice
  uint64_t refused_records = 0;
  uint64_t pages_asked_again = 0;  // times
  uint64_t leases_expired = 0;
  uint64_t sessions_lost = 0;

  void add(const transfer::remote::Session& session);
};

// What the client of a handoff that failed is told.
base::Error to_error(const transfer::remote::FaultReport& report);
// And what the operator is told.
void note(base::Logger* logger, const transfer::remote::FaultReport& report);
// The same of a session's end with a worker of the other role.
void note_closed(base::Logger* logger, const std::string& peer,
                 const transfer::remote::FaultReport& why);

// Prefill's side. Link::offer() is called with the finished prompt; receive() and withdraw() have
// nothing to give.
class PrefillHandoff : public transfer::Link {
 public:
  // Before the prompt is computed. Errors: faults (wire/faults.h) when the
  // decode worker cannot be reached.
  virtual base::Result<Opening> open(wire::Slot slot, const wire::AttemptId& attempt,
                                     const std::string& address, uint64_t decode_boot,
                                     int32_t prompt_tokens) = 0;
  // Nobody wants it any more, offered or not; its end follows.
  virtual void abandon(wire::Slot slot) = 0;
  virtual std::optional<HandoffEnd> next_end() = 0;
  virtual void poll() = 0;
  // Leaves every peer in good order; what is open ends. Nothing is opened any more.
  virtual void close() = 0;
  // The last words are out.
  virtual bool is_closed() const = 0;
};

// Decode's side: Link::receive() gives what arrived whole.
class DecodeHandoff : public transfer::Link {
 public:
  // Promises pages and lets the prefill worker fill them. kWait without room or without that
  // worker.
  virtual base::Result<Opening> expect(wire::Slot slot, const wire::Expect& what) = 0;
  // As PrefillHandoff's. What arrived in the meantime is dropped.
  virtual void abandon(wire::Slot slot) = 0;
  virtual std::optional<HandoffEnd> next_end() = 0;
  virtual void poll() = 0;
  // Writes of prefill workers that were refused at the fence, since the start.
  virtual uint64_t writes_refused() const = 0;
  // As PrefillHandoff's.
  virtual void close() = 0;
  virtual bool is_closed() const = 0;
};

}  // namespace bulkhead::serve::roles
