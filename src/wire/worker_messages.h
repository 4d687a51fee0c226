// What the gateway and a worker say to each other: requests one way, their events the other.
//
// Threads: plain values. Invariants: a request is named by its attempt, which the gateway draws at
// random and never uses twice, so that a word about an attempt that is over can be told from a word
// about the next one; nothing here is an address in memory, a type's name or code; every text and
// every list has a bound that is checked before anything is allocated.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/pools.h"
#include "wire/sequence_state.h"

namespace bulkhead::wire {

// Raised with every change of meaning; processes of unlike versions refuse each other.
constexpr uint16_t kWorkerProtocol = 3;

constexpr size_t kWorkerFrameMax = 16u << 20;
constexpr size_t kWorkerTextMax = 512;

enum class WorkerRole : uint8_t { kGateway = 1, kPrefill = 2, kDecode = 3 };
std::string_view to_string(WorkerRole role);

// One try at one request.
struct AttemptId {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const AttemptId&) const = default;
};

struct AttemptHash {
  size_t operator()(const AttemptId& id) const { return static_cast<size_t>(id.low); }
};

// The first frame of either side. Whether the two fit says serve/roles/pairing.h.
struct WorkerHello {
  uint32_t protocol = kWorkerProtocol;
  WorkerRole role = WorkerRole::kGateway;
  std::string product;  // version of Bulkhead
  std::array<uint8_t, 32> model_digest{};
  std::string label;    // for people: what the deployment calls it
  std::string weights;  // recipe; empty at a gateway, as all below
  std::string kv;       // format of its pages
  std::string layout;   // of its pages, in full
  int32_t page_tokens = 0;
  int32_t vocabulary_size = 0;  // a gateway has that too
  int32_t context_tokens = 0;   // the longest prompt and answer it takes
  int32_t pages = 0;
  uint32_t sequences_max = 0;    // attempts it holds at once
  std::string transfer_address;  // where pages arrive; of a decode worker
  std::string http_address;      // where it tells of itself, for people; empty: nowhere
  uint64_t boot_nonce = 0;       // of this start of the process
  std::array<uint8_t, 16> session_nonce{};

  bool operator==(const WorkerHello&) const = default;
};

// The peer fits, and here is the proof that this side knows the deployment's key.
struct WorkerReady {
  std::array<uint8_t, 32> proof{};
  bool operator==(const WorkerReady&) const = default;
};

// The last word of a session.
struct WorkerClose {
  std::string why;
  bool operator==(const WorkerClose&) const = default;
};

// "I am here", and how a worker is doing.
struct WorkerBeat {
  int32_t pages_total = 0;
  int32_t pages_free = 0;
  int32_t pages_cached = 0;
  uint32_t sequences = 0;
  bool draining = false;        // finishes what it has and takes nothing new
  uint64_t writes_refused = 0;  // of prefill workers, since the start of this decode worker
  bool operator==(const WorkerBeat&) const = default;
};

// To decode: pages for a sequence that a prefill worker will send.
struct Expect {
  AttemptId attempt;
  uint64_t prefill_boot = 0;  // whose session it will come by
  int32_t prompt_tokens = 0;
  int32_t tokens_max = 0;  // the longest it may become: all of it is promised
  bool operator==(const Expect&) const = default;
};

// To prefill: compute this prompt and hand the sequence over.
struct Submit {
  AttemptId attempt;
  std::string decode_address;  // empty: it ends with prefill
  uint64_t decode_boot = 0;
  SequenceState state;  // without id and slot, which belong to the process
};

struct Cancel {
  AttemptId attempt;
  bool operator==(const Cancel&) const = default;
};

// To prefill: the prefix index forgets everything.
struct FlushCache {
  bool operator==(const FlushCache&) const = default;
};

// From prefill: it has pages and will be computed.
struct Admitted {
  AttemptId attempt;
  int32_t cached_tokens = 0;
  bool operator==(const Admitted&) const = default;
};

// The events of wire/pools.h, from whichever worker has the attempt.
struct PromptScored {
  AttemptId attempt;
  PromptEvent event;
};
struct TokenMade {
  AttemptId attempt;
  TokenEvent event;
};
struct Offered {
  AttemptId attempt;
  bool operator==(const Offered&) const = default;
};
struct Accepted {
  AttemptId attempt;
  bool operator==(const Accepted&) const = default;
};
struct Ended {
  AttemptId attempt;
  Ending ending;
};
// The worker holds nothing for it any more and says nothing about it again.
struct Released {
  AttemptId attempt;
  bool operator==(const Released&) const = default;
};

using WorkerMessage =
    std::variant<WorkerHello, WorkerReady, WorkerClose, WorkerBeat, Expect, Submit, Cancel,
                 FlushCache, Admitted, PromptScored, TokenMade, Offered, Accepted, Ended, Released>;

std::string_view name_of(const WorkerMessage& message);

}  // namespace bulkhead::wire
