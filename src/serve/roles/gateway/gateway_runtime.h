// A gateway's engine: a router over workers elsewhere, and the step thread. What `serve` puts HTTP
// in front of where it has no model of its own.
//
// Threads: start() and stop() on one thread; generator(), members() and workers() may be used
// by any.
// Invariants: members are declared in the order they depend on each other and die in the reverse
// one, the step thread first; requests that wait while a role has nobody end with worker_lost.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "router/router.h"
#include "serve/engine.h"
#include "serve/roles/deployment.h"
#include "serve/roles/gateway/fleet_ports.h"
#include "telemetry/metrics.h"

namespace bulkhead::serve::roles {

class GatewayRuntime final : public Engine {
 public:
  // Connects to the workers, whose addresses are numbers, and waits until each role has somebody:
  // the least of their contexts is the deployment's. `keep_waiting` is asked every few
  // milliseconds; false ends with kCancelled.
  static base::Result<std::unique_ptr<GatewayRuntime>> start(
      const ServeOptions& options, const Identity& identity, const model::ModelConfig& config,
      const base::Clock& clock, telemetry::Registry& registry, base::Logger& logger,
      const std::function<bool()>& keep_waiting);
  ~GatewayRuntime() override;
  GatewayRuntime(const GatewayRuntime&) = delete;
  GatewayRuntime& operator=(const GatewayRuntime&) = delete;

  wire::Generator& generator() override { return *router_; }
  std::vector<wire::IntegrityWorker> workers() const override;
  std::vector<MemberStatus> members() const { return fleet_->members(); }
  bool drained() const override { return router_->drained(); }
  void drain(std::chrono::nanoseconds grace) override { router_->drain(clock_.now() + grace); }
  void stop() override;

 private:
  explicit GatewayRuntime(const base::Clock& clock) : clock_(clock) {}
  void run();
  void register_members(telemetry::Registry& registry);

  const base::Clock& clock_;
  std::unique_ptr<transfer::remote::Transport> transport_;
  std::unique_ptr<router::Membership> membership_;
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<FleetPrefill> prefill_;
  std::unique_ptr<FleetDecode> decode_;
  std::unique_ptr<router::Router> router_;
  std::thread thread_;
};

}  // namespace bulkhead::serve::roles
