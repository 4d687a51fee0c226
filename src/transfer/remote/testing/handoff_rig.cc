#include "transfer/remote/testing/handoff_rig.h"

#include <utility>

namespace bulkhead::transfer::remote {

HandoffRig::HandoffRig(RigOptions options)
    : network(clock, options.network),
      prefill(options.pages, options.integrity),
      decode(options.pages, options.integrity) {
  clock.advance(base::Nanoseconds{1});
  prefill.options.session.window_frames = options.window_frames;
  decode.options.session.window_frames = options.window_frames;
  network.set_plan(std::move(options.plan));
  connect();
}

void HandoffRig::connect() {
  auto ends = network.connect();
  prefill.connect(std::move(ends.first), clock);
  decode.connect(std::move(ends.second), clock);
}

bool HandoffRig::open() {
  const Session& first = prefill.sender->session();
  const Session& second = decode.receiver->session();
  while (!first.is_closed() && !second.is_closed()) {
    step();
    if (first.is_open() && second.is_open()) return true;
    clock.advance(base::Nanoseconds{10'000'000});
  }
  return false;
}

void HandoffRig::step() {
  prefill.poll();
  decode.poll();
}

bool HandoffRig::settle(base::Nanoseconds limit) {
  const auto until = clock.now() + limit;
  while (clock.now() < until) {
    step();
    prefill.compute_some();
    if (prefill.is_idle() && decode.is_idle()) return true;
    clock.advance(base::Nanoseconds{50'000'000});
  }
  return false;
}

void HandoffRig::compute_all(TransferId id) {
  while (compute(id)) {
  }
}

void HandoffRig::run(TransferId id, int32_t tokens) {
  grant(id, tokens);
  open_at_prefill(id, tokens);
  while (compute(id)) step();
  step();
}

Outcome HandoffRig::outcome(TransferId id) {
  const DecodeOutcome& at_decode = decode.outcomes[id];
  return {prefill.outcomes[id].end, at_decode.end, at_decode.arrived, at_decode.right};
}

std::string HandoffRig::balance() {
  prefill.forget();
  for (int32_t i = 0; i < 100 && decode.receiver->quarantined_pages() > 0; ++i) {
    step();
    clock.advance(base::Nanoseconds{100'000'000});
  }
  return kv::describe(kv::validate_idle(prefill.pages->snapshot())) +
         kv::describe(kv::validate_idle(decode.pages->snapshot()));
}

}  // namespace bulkhead::transfer::remote
