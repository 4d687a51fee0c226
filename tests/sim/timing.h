// The times of a simulated deployment, and what all its processes agree on.
//
// Threads: pure functions. Invariant: a step takes about a millisecond; every limit is many steps.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/rng.h"
#include "serve/roles/worker_session.h"
#include "sim/event_queue.h"
#include "sim/oracle_decoder.h"
#include "sim/process.h"

namespace bulkhead::sim {

constexpr Nanoseconds kStepLeast{300'000};
constexpr Nanoseconds kStepMost{1'700'000};
constexpr Nanoseconds kBeat = milliseconds(100);  // of the gateway and its workers
constexpr Nanoseconds kHeartbeat = milliseconds(50);
constexpr Nanoseconds kSilence = milliseconds(400);
constexpr Nanoseconds kLinger = milliseconds(100);
constexpr Nanoseconds kLease = milliseconds(1000);
constexpr Nanoseconds kCommitRetry = milliseconds(100);
constexpr Nanoseconds kStartMax = milliseconds(2000);
constexpr Nanoseconds kReconnect = milliseconds(20);
constexpr Nanoseconds kCancelMax = milliseconds(2000);
constexpr Nanoseconds kOutage = milliseconds(500);
constexpr const char* kKey = "the key of the deployment";

inline std::string control_address(std::string_view role, uint32_t number) {
  return fmt::format("{}-{}/control", role, number);
}

inline serve::roles::WorkerSessionOptions control_session(const Birth& birth) {
  serve::roles::WorkerSessionOptions out;
  out.identity.product = "sim";
  out.identity.vocabulary_size = kVocabulary;
  out.key = kKey;
  out.bounds = {kVocabulary, kContext};
  out.beat = kBeat;
  out.linger = kLinger;
  out.draw_nonce = [rng = base::Rng(birth.nonce, 0x17)]() mutable {
    std::array<uint8_t, 16> nonce{};
    for (uint8_t& byte : nonce) byte = static_cast<uint8_t>(rng.bits());
    return nonce;
  };
  return out;
}

}  // namespace bulkhead::sim
