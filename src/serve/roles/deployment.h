// What every process of a deployment of several derives alike from its options: key, identity,
// sessions, and the one pool that a worker has.
//
// Threads: pure functions, but for the files that are read. Invariant: what check_roles() passes
// can be connected to and listened on as far as its text says; flags that the role leaves without
// effect were refused before (config/effect.h).
#pragma once

#include <string>

#include "base/result.h"
#include "model/checkpoint.h"
#include "serve/options.h"
#include "serve/plan.h"
#include "serve/roles/worker_session.h"
#include "transfer/remote/session.h"

namespace bulkhead::serve::roles {

// What gateway and workers agree on.
struct Identity {
  std::string key;
  std::string product;  // version of Bulkhead
  std::array<uint8_t, 32> model_digest{};
  int32_t vocabulary_size = 0;
  uint64_t boot_nonce = 0;
};

base::Status check_roles(const ServeOptions& options);
// The deployment's secret. Refused: a file that anybody but its owner may read, several keys, a key
// that is short enough to be guessed.
base::Result<std::string> read_worker_key(const std::string& path);
// The same with the members' addresses as numbers, so that no step thread waits for a name. Errors:
// a name nobody knows; two texts that are one address.
base::Result<RoleOptions> resolve_members(const RoleOptions& roles);
// Reads the key and the checkpoint's digest.
base::Result<Identity> make_identity(const ServeOptions& options,
                                     const model::Checkpoint& checkpoint);

// The options of a worker's one pool, as those of a process that has no other.
ModelOptions pool_options(const ServeOptions& options);
// Errors and reasons name the options that were given.
base::Result<Plan> worker_plan(const ServeOptions& options, const model::Checkpoint& checkpoint,
                               const device::CpuFacts& cpu);
kv::PageLayout decode_layout(const ServeOptions& options, const model::ModelConfig& config);

// Between gateway and worker.
WorkerSessionOptions control_session(const ServeOptions& options, const Identity& identity,
                                     int32_t context_tokens);
// The same with what a worker says of itself; its transfer address is still to come.
WorkerSessionOptions worker_session(const ServeOptions& options, const Identity& identity,
                                    const Plan& plan);
// Between prefill and decode.
transfer::remote::SessionOptions handoff_session(const ServeOptions& options,
                                                 const Identity& identity,
                                                 const kv::PageLayout& own,
                                                 const kv::PageLayout& decode);

}  // namespace bulkhead::serve::roles
