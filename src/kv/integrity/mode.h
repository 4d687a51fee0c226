// How strict a pool is with its pages, and what can be wrong with one.
//
// Threads: plain values. Invariant: names are those of options, metrics and the API.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bulkhead::kv::integrity {

enum class Mode : uint8_t {
  kOff,      // nothing is recorded and nothing compared
  kObserve,  // mismatches are counted and logged, and the request goes on
  kAbort,    // and they end the request before it emits anything
};

enum class Kind : uint8_t {
  kTag,          // the page has another life than the one that was handed out, or is another page
  kLabel,        // the page is another tenant's
  kMisplaced,    // the page was given to another place of a sequence's text
  kOutOfRange,   // no page of the pool, or more or fewer pages than there should be
  kQuarantined,  // the page was withdrawn from all its holders
  kStamp,        // the page holds another place of another text
  kDigest,       // the page's bytes are not those that were sealed or sent
  kNonFinite,    // logits that are no numbers
  kBooks,        // leases and free list contradict each other
};
constexpr size_t kKinds = 9;
constexpr std::array<Kind, kKinds> kAllKinds = {
    Kind::kTag,   Kind::kLabel,  Kind::kMisplaced, Kind::kOutOfRange, Kind::kQuarantined,
    Kind::kStamp, Kind::kDigest, Kind::kNonFinite, Kind::kBooks};

// When something was looked at.
enum class Phase : uint8_t {
  kBefore,  // a step reads
  kAfter,   // it has read, and nothing is emitted yet
  kSource,  // the last byte of a page was copied or sent
  kCommit,  // a prompt is whole, or a transfer is
  kScrub,   // the scrubber came by
  kBooks,   // a lease was given back
};

// What happens to a page in its life.
enum class Transition : uint8_t {
  kAllocated,
  kShared,     // one lease more
  kDropped,    // one lease less, not the last
  kIndexed,    // the prefix index knows it: sealed
  kForgotten,  // and no longer
  kLabelled,   // its tenant became known after it was handed out
  kSent,       // read by a transfer
  kFilled,     // written by a transfer
  kFreed,
  kQuarantined,
};

std::string_view to_string(Mode mode);  // "off", "observe", "abort"
std::string_view to_string(Kind kind);  // "tag", "out_of_range", ...
std::string_view to_string(Phase phase);
std::string_view to_string(Transition transition);

}  // namespace bulkhead::kv::integrity
