#include "serve/roles/gateway/flight.h"

namespace bulkhead::serve::roles {

Hearing hear_prefill(const FlightState& state, FlightEvent event) {
  if (event == FlightEvent::kReleased) {
    // Before its offer a worker lets go only of what is over.
    return state.over || state.offered ? Hearing::kApply : Hearing::kWrong;
  }
  if (event == FlightEvent::kAccepted) return Hearing::kWrong;
  if (state.over) return Hearing::kIgnore;
  switch (event) {
    case FlightEvent::kAdmitted:
    case FlightEvent::kScores:
      return state.token ? Hearing::kWrong : Hearing::kApply;
    case FlightEvent::kToken:
      return state.token ? Hearing::kWrong : Hearing::kApply;
    case FlightEvent::kOffered:
      return state.token && !state.offered && state.has_decode ? Hearing::kApply : Hearing::kWrong;
    case FlightEvent::kEnded:
      return state.offered ? Hearing::kWrong : Hearing::kApply;
    case FlightEvent::kFailed:
      // Decode has it: what prefill did not hear of that is no matter.
      return state.accepted ? Hearing::kIgnore : Hearing::kApply;
    default:
      return Hearing::kWrong;
  }
}

Hearing hear_decode(const FlightState& state, FlightEvent event) {
  switch (event) {
    case FlightEvent::kAdmitted:
    case FlightEvent::kScores:
    case FlightEvent::kOffered:
      return Hearing::kWrong;
    default:
      break;
  }
  if (state.over) return event == FlightEvent::kReleased ? Hearing::kApply : Hearing::kIgnore;
  // Whatever comes first, in the order in which it was said.
  if (state.early) return Hearing::kLater;
  switch (event) {
    case FlightEvent::kAccepted:
      if (state.accepted) return Hearing::kWrong;
      return state.offered ? Hearing::kApply : Hearing::kLater;
    case FlightEvent::kFailed:
      return Hearing::kApply;
    case FlightEvent::kToken:
    case FlightEvent::kEnded:
      return state.accepted ? Hearing::kApply : Hearing::kWrong;
    default:
      return Hearing::kWrong;  // it lets go of what is not over
  }
}

}  // namespace bulkhead::serve::roles
