#include "transfer/remote/fault.h"

namespace bulkhead::transfer::remote {

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "none";
    case Fault::kPeerLost:
      return "peer_lost";
    case Fault::kPairRefused:
      return "pair_refused";
    case Fault::kProtocol:
      return "protocol";
    case Fault::kAborted:
      return "aborted";
    case Fault::kRevoked:
      return "revoked";
    case Fault::kLeaseExpired:
      return "lease_expired";
    case Fault::kNoGrant:
      return "no_grant";
    case Fault::kMissing:
      return "missing";
    case Fault::kIntegrity:
      return "integrity";
    case Fault::kOverloaded:
      return "overloaded";
    case Fault::kShutdown:
      return "shutdown";
  }
  return "unknown";
}

std::string_view contract_code(Fault fault) {
  switch (fault) {
    case Fault::kIntegrity:
      return "kv_integrity";
    case Fault::kPeerLost:
    case Fault::kShutdown:
      return "worker_lost";
    case Fault::kOverloaded:
      return "overloaded";
    default:
      return "kv_transfer_failed";
  }
}

}  // namespace bulkhead::transfer::remote
