#include "serve/roles/gateway/gateway_runtime.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "device/thread_tuning.h"
#include "transfer/remote/ucx_transport.h"
#include "wire/secrets.h"

namespace bulkhead::serve::roles {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long the step thread may look away: while answers are on their way, and while nothing is.
constexpr microseconds kBusyPause{100};
constexpr milliseconds kIdlePause{2};
// How long the last words to the workers may take.
constexpr milliseconds kFarewellMax{1000};

// Before there is a router nothing can happen to a request.
class NoRequests final : public wire::PoolEvents {
 public:
  void on_prompt(wire::Slot, wire::PromptEvent) override { none(); }
  void on_token(wire::Slot, wire::TokenEvent) override { none(); }
  void on_offered(wire::Slot) override { none(); }
  void on_accepted(wire::Slot) override { none(); }
  void on_end(wire::Slot, wire::Ending) override { none(); }
  void on_released(wire::Slot) override { none(); }
  void on_cached(wire::Slot, int32_t) override { none(); }
  void on_returned(wire::Slot, wire::SequenceState) override { none(); }

 private:
  static void none() { BH_CHECK(false, "no request was given to anybody"); }
};

FleetOptions fleet_options(const ServeOptions& options, const Identity& identity,
                           const model::ModelConfig& config, size_t slots) {
  FleetOptions out;
  out.member.session = control_session(options, identity, config.context);
  out.slots = slots;
  out.affinity.page_tokens = options.model.page_tokens;
  wire::draw_bytes(out.affinity.secret);
  out.attempt_seed = wire::draw_word();
  out.outage_max = 2 * base::Nanoseconds(options.roles.heartbeat);
  return out;
}

}  // namespace

base::Result<std::unique_ptr<GatewayRuntime>> GatewayRuntime::start(
    const ServeOptions& options, const Identity& identity, const model::ModelConfig& config,
    const base::Clock& clock, telemetry::Registry& registry, base::Logger& logger,
    const std::function<bool()>& keep_waiting) {
  std::unique_ptr<GatewayRuntime> out(new GatewayRuntime(clock));
  BH_ASSIGN(out->transport_, transfer::remote::make_ucx_transport({}));
  out->membership_ = std::make_unique<router::FixedMembership>(options.roles.prefill_workers,
                                                               options.roles.decode_workers);
  wire::GenerateLimits limits;
  limits.running_max =
      options.model.running_max * static_cast<uint32_t>(options.roles.decode_workers.size());
  limits.queued_max = options.model.queued_max;
  limits.vocabulary_size = config.vocabulary;
  out->fleet_ = std::make_unique<Fleet>(
      fleet_options(options, identity, config, limits.running_max + limits.queued_max),
      *out->membership_, *out->transport_, clock, &logger);
  NoRequests none;
  while (!out->fleet_->is_complete()) {
    if (!keep_waiting()) return base::Error{base::ErrorCode::kCancelled, "told to end", {}};
    out->fleet_->poll(none);
  }
  const int32_t asked =
      options.model.context_tokens > 0 ? options.model.context_tokens : config.context;
  limits.context_tokens = std::min(asked, out->fleet_->context_tokens());
  limits.cache_tokens = out->fleet_->cache_tokens(wire::WorkerRole::kDecode);
  limits.prefill_cache_tokens = out->fleet_->cache_tokens(wire::WorkerRole::kPrefill);
  out->fleet_->set_context(limits.context_tokens);
  out->prefill_ = std::make_unique<FleetPrefill>(*out->fleet_);
  out->decode_ = std::make_unique<FleetDecode>(*out->fleet_);
  out->router_ = std::make_unique<router::Router>(
      limits, router::RouterDeps{*out->prefill_, *out->decode_, clock, registry, &logger});
  out->register_members(registry);
  out->thread_ = std::thread([runtime = out.get()] { runtime->run(); });
  return out;
}

GatewayRuntime::~GatewayRuntime() { stop(); }

std::vector<wire::IntegrityWorker> GatewayRuntime::workers() const {
  std::vector<MemberStatus> members = fleet_->members();
  std::vector<wire::IntegrityWorker> out;
  out.reserve(members.size());
  for (MemberStatus& member : members) {
    out.push_back({std::move(member.label), member.present, std::move(member.http)});
  }
  return out;
}

void GatewayRuntime::stop() {
  if (!thread_.joinable()) return;
  drain(std::chrono::nanoseconds(0));
  thread_.join();
}

void GatewayRuntime::run() {
  device::name_thread("bulkhead-step");
  while (!router_->drained()) {
    const wire::StepOutcome outcome = router_->step();
    if (const auto outage = fleet_->outage()) router_->end_waiting(*outage);
    if (outcome != wire::StepOutcome::kIdle || router_->drained()) continue;
    router_->wait(fleet_->flights() > 0 ? std::chrono::nanoseconds(kBusyPause)
                                        : std::chrono::nanoseconds(kIdlePause));
  }
  fleet_->leave();
  const base::Nanoseconds last = clock_.now() + kFarewellMax;
  while (!fleet_->has_left() && clock_.now() < last) std::this_thread::sleep_for(kBusyPause);
}

void GatewayRuntime::register_members(telemetry::Registry& registry) {
  const std::vector<router::Member> members = membership_->members();
  for (size_t i = 0; i < members.size(); ++i) {
    const telemetry::Labels labels = {{"worker", members[i].label}};
    const auto of = [fleet = fleet_.get(), i](auto read) {
      return [fleet, i, read] { return static_cast<double>(read(fleet->members()[i])); };
    };
    registry.gauge("bulkhead_worker_up", "1 while the worker is there",
                   of([](const MemberStatus& m) { return m.present ? 1 : 0; }), labels);
    registry.gauge("bulkhead_worker_sequences", "Requests that the worker was given and has",
                   of([](const MemberStatus& m) { return m.sequences; }), labels);
    registry.gauge("bulkhead_worker_tokens_in_flight", "Estimated work that the worker has",
                   of([](const MemberStatus& m) { return m.tokens; }), labels);
    registry.counter("bulkhead_worker_losses_total", "Times the worker was lost",
                     of([](const MemberStatus& m) { return m.losses; }), labels);
    registry.counter("bulkhead_worker_writes_refused_total",
                     "Writes of prefill workers that the worker refused, since it started",
                     of([](const MemberStatus& m) { return m.writes_refused; }), labels);
  }
}

}  // namespace bulkhead::serve::roles
