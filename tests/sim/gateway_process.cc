#include <algorithm>
#include <optional>

#include "router/router.h"
#include "serve/roles/gateway/fleet_ports.h"
#include "sim/process.h"
#include "sim/timing.h"
#include "telemetry/metrics.h"

namespace bulkhead::sim {
namespace {

using serve::roles::FleetOptions;

// Until it knows its workers a gateway has no requests of which they could speak.
class NoEvents final : public wire::PoolEvents {
 public:
  void on_prompt(wire::Slot, wire::PromptEvent) override {}
  void on_token(wire::Slot, wire::TokenEvent) override {}
  void on_offered(wire::Slot) override {}
  void on_accepted(wire::Slot) override {}
  void on_end(wire::Slot, wire::Ending) override {}
  void on_released(wire::Slot) override {}
  void on_cached(wire::Slot, int32_t) override {}
  void on_returned(wire::Slot, wire::SequenceState) override {}
};

std::vector<std::string> addresses(std::string_view role, uint32_t count) {
  std::vector<std::string> out;
  out.reserve(count);
  for (uint32_t i = 0; i < count; ++i) out.push_back(control_address(role, i));
  return out;
}

constexpr uint32_t kQueued = 64;

FleetOptions fleet_options(const SwarmConfig& config, const Birth& birth) {
  FleetOptions out;
  out.member.session = control_session(birth);
  out.member.session.identity.role = wire::WorkerRole::kGateway;
  out.member.session.identity.label = "gateway";
  out.member.session.identity.boot_nonce = birth.nonce;
  out.member.reconnect = kReconnect;
  out.member.after_refusal = kReconnect;
  out.slots = config.running_max + kQueued;
  out.cancel_max = kCancelMax;
  out.affinity.page_tokens = kPageTokens;
  out.attempt_seed = birth.nonce;
  out.outage_max = kOutage;
  return out;
}

// As serve/roles/gateway/gateway_runtime.cc, without its thread.
class GatewayProcess final : public Process {
 public:
  GatewayProcess(const SwarmConfig& config, const Birth& birth, SimNet& net,
                 const base::Clock& clock)
      : clock_(clock),
        transport_(net.join(birth.id, "")),
        membership_(addresses("prefill", config.prefill_workers),
                    addresses("decode", config.decode_workers)),
        fleet_(fleet_options(config, birth), membership_, *transport_, clock, nullptr),
        prefill_(fleet_),
        decode_(fleet_),
        running_max_(config.running_max) {}

  void step() override {
    if (!router_) {
      NoEvents none;
      fleet_.poll(none);
      if (fleet_.is_complete()) open();
      return;
    }
    router_->step();
    if (const auto outage = fleet_.outage()) router_->end_waiting(*outage);
  }

  std::string audit() override { return {}; }
  bool is_quiet() const override {
    if (!router_ || fleet_.flights() > 0) return false;
    const auto members = fleet_.members();
    return std::all_of(members.begin(), members.end(),
                       [](const auto& member) { return member.present && member.sequences == 0; });
  }
  std::string audit_quiet() override {
    for (const auto& member : fleet_.members()) {
      if (member.tokens != 0) return member.label + " is believed to have work; ";
    }
    return {};
  }
  wire::Generator* generator() override { return router_ ? &*router_ : nullptr; }
  void count(RunStats& stats) const override {
    for (const auto& member : fleet_.members()) {
      stats.noticed[static_cast<size_t>(Mechanism::kMembership)] += member.losses;
    }
  }

 private:
  void open() {
    wire::GenerateLimits limits;
    limits.context_tokens = std::min(kContext, fleet_.context_tokens());
    limits.cache_tokens = fleet_.cache_tokens(wire::WorkerRole::kDecode);
    limits.prefill_cache_tokens = fleet_.cache_tokens(wire::WorkerRole::kPrefill);
    limits.vocabulary_size = kVocabulary;
    limits.running_max = running_max_;
    limits.queued_max = kQueued;
    fleet_.set_context(limits.context_tokens);
    router_.emplace(limits, router::RouterDeps{prefill_, decode_, clock_, registry_});
  }

  const base::Clock& clock_;
  std::unique_ptr<transfer::remote::Transport> transport_;
  telemetry::Registry registry_;
  router::FixedMembership membership_;
  serve::roles::Fleet fleet_;
  serve::roles::FleetPrefill prefill_;
  serve::roles::FleetDecode decode_;
  const uint32_t running_max_;
  std::optional<router::Router> router_;
};

}  // namespace

std::unique_ptr<Process> make_gateway(const SwarmConfig& config, const Birth& birth, SimNet& net,
                                      const base::Clock& clock) {
  return std::make_unique<GatewayProcess>(config, birth, net, clock);
}

}  // namespace bulkhead::sim
