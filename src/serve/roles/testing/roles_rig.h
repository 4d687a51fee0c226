// A whole deployment in one thread: a gateway, prefill and decode workers on stand-in models, and
// the network between them. Processes can be killed, stopped and started again.
//
// Threads: one. Invariants: time passes only in step(); the model turns any foreign, stale or
// missing cache page into a wrong token, so that a right answer proves the handoff.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "decode/decode_pool.h"
#include "engine/executor.h"
#include "engine/testing/checking_decoder.h"
#include "engine/testing/collecting_sink.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "prefill/prefill_pool.h"
#include "router/router.h"
#include "sampling/sampler.h"
#include "serve/roles/gateway/fleet_ports.h"
#include "serve/roles/testing/local_hub.h"
#include "serve/roles/worker/decode_worker.h"
#include "serve/roles/worker/prefill_worker.h"
#include "serve/roles/worker/receiving_link.h"
#include "serve/roles/worker/sending_link.h"
#include "telemetry/metrics.h"

namespace bulkhead::serve::roles::testing {

struct RigOptions {
  size_t prefill_workers = 1;
  size_t decode_workers = 1;
  int32_t prefill_pages = 32;
  int32_t decode_pages = 32;
  int32_t page_tokens = 16;
  int32_t chunk_tokens = 32;
  uint32_t sequences_max = 8;
  uint32_t running_max = 16;
  int32_t retries_max = 2;
  std::string key = "the key of the deployment";
};

constexpr int32_t kRigVocabulary = 96;
constexpr int32_t kRigContext = 512;

// What a worker and a gateway have of their own, in the order in which it is built.
struct PrefillProcess {
  PrefillProcess(LocalHub& hub, size_t number, const RigOptions& options, const base::Clock& clock,
                 base::Logger* logger);
  std::unique_ptr<transfer::remote::Transport> control;
  std::unique_ptr<transfer::remote::Transport> transport;
  engine::testing::CheckingDecoder decoder;
  std::unique_ptr<kv::PagePool> pages;
  kv::PrefixIndex index;
  std::unique_ptr<engine::Executor> executor;
  sampling::Sampler sampler;
  uint64_t boot;  // nonce of this start
  SendingLink link;
  prefill::PrefillPool pool;
  PrefillWorker worker;
  bool stopped = false;
};

struct DecodeProcess {
  DecodeProcess(LocalHub& hub, size_t number, const RigOptions& options, const base::Clock& clock,
                base::Logger* logger);
  std::unique_ptr<transfer::remote::Transport> control;
  std::unique_ptr<transfer::remote::Transport> transport;
  engine::testing::CheckingDecoder decoder;
  std::unique_ptr<kv::PagePool> pages;
  std::unique_ptr<engine::Executor> executor;
  sampling::Sampler sampler;
  uint64_t boot;  // nonce of this start
  ReceivingLink link;
  decode::DecodePool pool;
  DecodeWorker worker;
  bool stopped = false;
};

struct GatewayProcess {
  GatewayProcess(LocalHub& hub, const RigOptions& options, const base::Clock& clock,
                 base::Logger* logger);
  std::unique_ptr<transfer::remote::Transport> transport;
  telemetry::Registry registry;
  router::FixedMembership membership;
  Fleet fleet;
  FleetPrefill prefill;
  FleetDecode decode;
  router::Router router;
  bool stopped = false;
};

class RolesRig {
 public:
  explicit RolesRig(const RigOptions& options = {});
  ~RolesRig();

  // Every process that is there and not stopped runs once; a millisecond passes.
  void step();
  void run(int steps);
  // Steps until `done` says so; false when that does not come within `steps`.
  template <typename Done>
  bool run_until(Done done, int steps = 100000) {
    for (int i = 0; i < steps; ++i) {
      if (done()) return true;
      step();
    }
    return done();
  }
  // Until both roles are there.
  bool join();

  struct Running {
    wire::RequestId id = 0;
    std::shared_ptr<engine::testing::CollectingSink> sink;
    base::Status status;
    bool finished() const { return sink->finishes() > 0; }
  };
  Running submit(wire::GenerateRequest request);
  Running submit(std::vector<wire::TokenId> prompt, int32_t max_tokens);

  void kill_prefill(size_t i) { prefill_[i].reset(); }
  void kill_decode(size_t i) { decode_[i].reset(); }
  void kill_gateway() { gateway_.reset(); }
  void start_prefill(size_t i);
  void start_decode(size_t i);
  void start_gateway();

  PrefillProcess* prefill(size_t i = 0) { return prefill_[i].get(); }
  DecodeProcess* decode(size_t i = 0) { return decode_[i].get(); }
  GatewayProcess* gateway() { return gateway_.get(); }
  base::ManualClock& clock() { return clock_; }
  RigOptions& options() { return options_; }
  std::string log() const { return log_.str(); }
  LocalHub& hub() { return hub_; }

  // CONSERVE: steps until nothing is held anywhere, and what is wrong then; empty: nothing.
  std::string balance();

 private:
  RigOptions options_;
  base::ManualClock clock_;
  std::ostringstream log_;
  base::Logger logger_;
  LocalHub hub_;
  std::vector<std::unique_ptr<PrefillProcess>> prefill_;
  std::vector<std::unique_ptr<DecodeProcess>> decode_;
  std::unique_ptr<GatewayProcess> gateway_;
};

// A prompt that no other seed shares a page with.
std::vector<wire::TokenId> rig_prompt(uint64_t seed, size_t tokens);
// The greedy answer as it has to be, from the tokens alone.
std::vector<wire::TokenId> rig_answer(const std::vector<wire::TokenId>& prompt, int32_t tokens);

}  // namespace bulkhead::serve::roles::testing
