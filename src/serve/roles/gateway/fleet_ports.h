// The fleet as the router knows pools.
//
// Threads: as wire/pools.h says. Invariant: a worker promises all pages at admission, so prepare()
// never says no and nothing is ever preempted.
#pragma once

#include "serve/roles/gateway/fleet.h"

namespace bulkhead::serve::roles {

class FleetPrefill final : public wire::PrefillPort {
 public:
  explicit FleetPrefill(Fleet& fleet) : fleet_(fleet) {}
  std::optional<wire::Admission> admit(wire::SequenceState& state, int32_t) override {
    return fleet_.admit(state);
  }
  wire::StepReport step(wire::PoolEvents&) override {
    return fleet_.take_report(wire::WorkerRole::kPrefill);
  }
  void abort(wire::Slot slot, wire::PoolEvents& events) override { fleet_.abort(slot, events); }
  std::optional<wire::SequenceState> preempt(wire::Slot) override { return std::nullopt; }
  void flush_cache() override { fleet_.flush_cache(); }
  wire::PageGauges pages() const override { return fleet_.pages(wire::WorkerRole::kPrefill); }

 private:
  Fleet& fleet_;
};

class FleetDecode final : public wire::DecodePort {
 public:
  explicit FleetDecode(Fleet& fleet) : fleet_(fleet) {}
  bool reserve(const wire::SequenceState& state) override { return fleet_.reserve(state); }
  void unreserve(wire::Slot slot) override { fleet_.unreserve(slot); }
  bool prepare(wire::PoolEvents& events) override {
    fleet_.poll(events);
    return true;
  }
  wire::StepReport step(wire::PoolEvents&) override {
    return fleet_.take_report(wire::WorkerRole::kDecode);
  }
  void abort(wire::Slot slot, wire::PoolEvents& events) override { fleet_.abort(slot, events); }
  std::optional<wire::SequenceState> preempt(wire::Slot) override { return std::nullopt; }
  std::optional<wire::PageGauges> pages() const override {
    return fleet_.pages(wire::WorkerRole::kDecode);
  }

 private:
  Fleet& fleet_;
};

}  // namespace bulkhead::serve::roles
