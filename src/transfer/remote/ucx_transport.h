// Frames over UCX: active messages, so that what arrives is copied to its place by our own code.
//
// Threads: step thread only, the one that calls progress(). Invariants: no peer is given a right to
// write memory of this process by itself; a connection hears of its peer's death; connections are
// destroyed before their transport.
//
// UCX trusts whoever speaks its own protocol: its ports belong on a network of the deployment
// alone. What a frame says is trusted by nobody, see codec.h and session.h.
#pragma once

#include <memory>
#include <string>

#include "transfer/remote/transport.h"

namespace bulkhead::transfer::remote {

struct UcxOptions {
  std::string listen;                     // "address:port", port 0: any; empty: do not listen
  size_t posted_max = 32;                 // frames of a connection that UCX holds at once
  size_t arrived_bytes_max = 256u << 20;  // of a connection, not polled yet; beyond: it closes
  size_t accepting_max = 64;              // incoming connections nobody accepted yet
};

// Errors: kInvalidArgument for an address that is none; kIo for what UCX or the system refuses.
base::Result<std::unique_ptr<Transport>> make_ucx_transport(const UcxOptions& options);

// Version and source, for the banner: "UCX 1.13.1".
std::string ucx_version();

}  // namespace bulkhead::transfer::remote
