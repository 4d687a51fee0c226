#include "router/request_state.h"

#include <cstddef>

namespace bulkhead::router {
namespace {

using S = RequestState;

constexpr Transition kNo{Verdict::kImpossible, S::kDone};
constexpr Transition kLate{Verdict::kIgnore, S::kDone};
constexpr Transition to(S state) { return {Verdict::kMove, state}; }

constexpr size_t kStates = 6;
constexpr size_t kEvents = 10;

constexpr Transition kQue = to(S::kQueued);
constexpr Transition kPre = to(S::kPrefilling);
constexpr Transition kTra = to(S::kTransferring);
constexpr Transition kDec = to(S::kDecoding);
constexpr Transition kDrain = to(S::kDraining);
constexpr Transition kDone = to(S::kDone);

// clang-format off
constexpr Transition kTable[kStates][kEvents] = {
  //                   admit  offer  accpt     end    fail  cancel  expire    shut  prempt  rlse
  /* queued       */ { kPre,   kNo,   kNo,    kNo,    kNo,  kDone,  kDone,  kDone,    kNo,   kNo},
  /* prefilling   */ {  kNo,  kTra,   kNo, kDrain, kDrain, kDrain, kDrain, kDrain,   kQue,   kNo},
  /* transferring */ {  kNo,   kNo,  kDec,    kNo, kDrain, kDrain, kDrain, kDrain,   kQue,   kNo},
  /* decoding     */ {  kNo,   kNo,   kNo, kDrain, kDrain, kDrain, kDrain, kDrain,   kQue,   kNo},
  /* draining     */ {  kNo,   kNo,   kNo,  kLate,  kLate,  kLate,  kLate,  kLate,    kNo, kDone},
  /* done         */ {  kNo,   kNo,   kNo,    kNo,    kNo,  kLate,  kLate,  kLate,    kNo,   kNo},
};
// clang-format on

}  // namespace

Transition transition(RequestState from, RequestEvent event) {
  return kTable[static_cast<size_t>(from)][static_cast<size_t>(event)];
}

std::string_view to_string(RequestState state) {
  switch (state) {
    case RequestState::kQueued:
      return "queued";
    case RequestState::kPrefilling:
      return "prefilling";
    case RequestState::kTransferring:
      return "transferring";
    case RequestState::kDecoding:
      return "decoding";
    case RequestState::kDraining:
      return "draining";
    case RequestState::kDone:
      return "done";
  }
  return "unknown";
}

std::string_view to_string(RequestEvent event) {
  switch (event) {
    case RequestEvent::kAdmitted:
      return "admitted";
    case RequestEvent::kOffered:
      return "offered";
    case RequestEvent::kAccepted:
      return "accepted";
    case RequestEvent::kEnded:
      return "ended";
    case RequestEvent::kFailed:
      return "failed";
    case RequestEvent::kCancelled:
      return "cancelled";
    case RequestEvent::kDeadline:
      return "deadline";
    case RequestEvent::kShutdown:
      return "shutdown";
    case RequestEvent::kPreempted:
      return "preempted";
    case RequestEvent::kReleased:
      return "released";
  }
  return "unknown";
}

}  // namespace bulkhead::router
