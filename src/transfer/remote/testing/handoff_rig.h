// A prefill side and a decode side with small pools and a network that can misbehave.
//
// Threads: one. Invariant: time moves only when the rig says so.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transfer/remote/testing/fake_network.h"
#include "transfer/remote/testing/sides.h"

namespace bulkhead::transfer::remote {

struct RigOptions {
  int32_t pages = 24;
  uint32_t window_frames = 32;
  FakeOptions network = {};
  FakeNetwork::Plan plan = {};
  kv::integrity::Mode integrity = kv::integrity::Mode::kOff;  // of both pools
};

// How one transfer came out on either side.
struct Outcome {
  std::optional<FaultReport> prefill;  // fault kNone: well
  std::optional<FaultReport> decode;   // set when it ended otherwise than by arriving
  bool arrived = false;
  bool right = false;
};

class HandoffRig {
 public:
  explicit HandoffRig(RigOptions options = {});

  // New sessions over a new wire.
  void connect();
  // Polls both sides, until they are open or gave up; false when they gave up.
  bool open();
  // One poll of each side.
  void step();
  // Steps, computes and lets time pass until every transfer has come out on both sides. False: one
  // hangs.
  bool settle(base::Nanoseconds limit = base::Nanoseconds{60'000'000'000});

  bool grant(TransferId id, int32_t tokens) { return decode.grant(id, tokens); }
  bool open_at_prefill(TransferId id, int32_t tokens) { return prefill.open(id, tokens); }
  bool compute(TransferId id) { return prefill.compute(id); }
  void compute_all(TransferId id);
  // Grants, opens and computes step by step.
  void run(TransferId id, int32_t tokens);

  Outcome outcome(TransferId id);
  // What is wrong with the pools once nobody holds anything and quarantine had time to end; empty:
  // every page is back.
  std::string balance();

  base::ManualClock clock;
  FakeNetwork network;
  PrefillSide prefill;
  DecodeSide decode;
};

}  // namespace bulkhead::transfer::remote
