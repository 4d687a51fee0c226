// One try at one request on one or two workers: what the gateway believes of it, and which words of
// a worker make sense in that state.
//
// Threads: plain value, step thread only. Invariants: an event that makes no sense is named and
// changes nothing; once a flight is over (ended, aborted or to be run again) no event of it reaches
// the request any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "router/prefix_affinity.h"
#include "serve/roles/gateway/fleet_member.h"

namespace bulkhead::serve::roles {

enum class FlightEvent : uint8_t {
  kAdmitted,  // from prefill
  kScores,    // from prefill
  kToken,     // from either
  kOffered,   // from prefill
  kAccepted,  // from decode
  kEnded,     // well, from either
  kFailed,    // from either
  kReleased,  // from either
};

enum class Hearing : uint8_t {
  kApply,   // it moves the flight
  kIgnore,  // too late to matter
  kLater,   // decode is ahead of prefill: after the offer was heard
  kWrong,   // no worker in its right mind says so
};

// How far a flight has come: a value of its own, so that the rules are a table.
struct FlightState {
  bool token = false;       // prefill told the first token
  bool offered = false;     // prefill told the offer
  bool accepted = false;    // decode told that it took over
  bool over = false;        // see above
  bool has_decode = false;  // a decode worker waits for it
  bool early = false;       // words of decode wait for prefill's offer
};

// Whether a word of the prefill worker, or of the decode worker, makes sense now.
Hearing hear_prefill(const FlightState& state, FlightEvent event);
Hearing hear_decode(const FlightState& state, FlightEvent event);

// What an attempt has at one worker.
struct FlightPart {
  size_t member = 0;
  Load load;
  bool reserved = false;  // room is counted, nothing was sent
  bool held = false;      // the worker has it, as far as we know
  bool cancelled = false;
  base::Nanoseconds cancelled_at{0};
};

struct Flight {
  bool live = false;  // between admission and release
  wire::AttemptId attempt;
  wire::RequestId request = 0;
  wire::SequenceState state;  // until something of it was told
  FlightState at;
  bool told = false;        // the client may have seen something: it cannot be run again
  bool rerun = false;       // returns to its owner once nobody holds it
  int32_t tokens_left = 0;  // that may still be told
  int32_t scored = 1;       // prompt tokens whose scores were told
  FlightPart prefill;
  FlightPart decode;
  std::vector<wire::WorkerMessage> early;  // words of decode that wait for prefill's offer
  std::vector<router::PrefixAffinity::Key> keys;
  bool keyed = false;  // the keys are those of the request
  wire::CacheScope scope;
  int32_t cached_tokens = 0;
  int32_t prompt_tokens = 0;
  // Of the request, over its tries.
  int32_t tries = 0;
  std::vector<size_t> failed;  // members that lost it
};

}  // namespace bulkhead::serve::roles
