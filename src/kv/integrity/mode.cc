#include "kv/integrity/mode.h"

namespace bulkhead::kv::integrity {

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::kOff:
      return "off";
    case Mode::kObserve:
      return "observe";
    case Mode::kAbort:
      return "abort";
  }
  return "unknown";
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kTag:
      return "tag";
    case Kind::kLabel:
      return "label";
    case Kind::kMisplaced:
      return "misplaced";
    case Kind::kOutOfRange:
      return "out_of_range";
    case Kind::kQuarantined:
      return "quarantined";
    case Kind::kStamp:
      return "stamp";
    case Kind::kDigest:
      return "digest";
    case Kind::kNonFinite:
      return "nonfinite";
    case Kind::kBooks:
      return "books";
  }
  return "unknown";
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kBefore:
      return "before";
    case Phase::kAfter:
      return "after";
    case Phase::kSource:
      return "source";
    case Phase::kCommit:
      return "commit";
    case Phase::kScrub:
      return "scrub";
    case Phase::kBooks:
      return "books";
  }
  return "unknown";
}

std::string_view to_string(Transition transition) {
  switch (transition) {
    case Transition::kAllocated:
      return "allocated";
    case Transition::kShared:
      return "shared";
    case Transition::kDropped:
      return "dropped";
    case Transition::kIndexed:
      return "indexed";
    case Transition::kForgotten:
      return "forgotten";
    case Transition::kLabelled:
      return "labelled";
    case Transition::kSent:
      return "sent";
    case Transition::kFilled:
      return "filled";
    case Transition::kFreed:
      return "freed";
    case Transition::kQuarantined:
      return "quarantined";
  }
  return "unknown";
}

}  // namespace bulkhead::kv::integrity
