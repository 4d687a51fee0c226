// Why a transfer or a session ended other than well, in words both peers and the API share.
//
// Threads: plain values. Invariant: the numbers travel; new ones go at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bulkhead::transfer::remote {

enum class Fault : uint8_t {
  kNone = 0,
  kPeerLost,      // the connection broke, or the peer fell silent
  kPairRefused,   // the peers do not fit each other
  kProtocol,      // a frame that is malformed or makes no sense
  kAborted,       // the owner of the request gave it up
  kRevoked,       // the right to write was taken back, or was never there
  kLeaseExpired,  // nothing was heard of the transfer for as long as its lease lasts
  kNoGrant,       // decode never asked for these pages
  kMissing,       // bytes did not arrive, however often they were asked for
  kIntegrity,     // digest, tag or record disagree with what is there
  kOverloaded,    // a stated limit is reached
  kShutdown,      // the peer leaves in good order
};
constexpr Fault kLastFault = Fault::kShutdown;

std::string_view to_string(Fault fault);
// The `code` of the error a client gets: kv_integrity, kv_transfer_failed, worker_lost or
// overloaded. All of them may be tried again.
std::string_view contract_code(Fault fault);

// One fault and its story, as it is logged.
struct FaultReport {
  Fault fault = Fault::kNone;
  std::string text;
};

}  // namespace bulkhead::transfer::remote
