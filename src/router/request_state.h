// The life of a request as a table: what each event does in each state.
//
// Threads: pure functions. Invariants: kDone is entered once and never left; the first reason to
// end stands, later ones are ignored; a queued request holds nothing, so it can be done at once,
// while an admitted one drains until its pools have let go of everything; a preempted one is queued
// again and holds nothing.
#pragma once

#include <string_view>

namespace bulkhead::router {

enum class RequestState { kQueued, kPrefilling, kTransferring, kDecoding, kDraining, kDone };

enum class RequestEvent {
  kAdmitted,   // prefill took it
  kOffered,    // the prompt is in the cache, decode has been offered the sequence
  kAccepted,   // decode took it
  kEnded,      // stop id or length limit
  kFailed,     // an error of its own
  kCancelled,  // somebody asked, or the client left
  kDeadline,
  kShutdown,
  kPreempted,  // gave its pages to older ones; runs again later
  kReleased,   // the pools hold nothing for it any more
};

enum class Verdict {
  kMove,        // go to `to`
  kIgnore,      // too late to matter
  kImpossible,  // a mistake of ours
};

struct Transition {
  Verdict verdict = Verdict::kImpossible;
  RequestState to = RequestState::kDone;  // meaningful for kMove

  friend bool operator==(const Transition&, const Transition&) = default;
};

Transition transition(RequestState from, RequestEvent event);

std::string_view to_string(RequestState state);
std::string_view to_string(RequestEvent event);

}  // namespace bulkhead::router
