// A prefill side and a decode side with small pools and a network that can misbehave.
//
// Threads: one. Invariants: the bytes of every page are a function of transfer, page and place, and
// conversion changes each of them, so that a byte from anywhere else shows; reuse of pages is
// immediate, the pools being as small as they are.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kv/page_pool.h"
#include "transfer/remote/receiver.h"
#include "transfer/remote/sender.h"
#include "transfer/remote/testing/fake_network.h"

namespace bulkhead::transfer::remote {

struct RigOptions {
  int32_t pages = 24;
  uint32_t window_frames = 32;
  FakeOptions network = {};
  FakeNetwork::Plan plan = {};
};

// How one transfer came out on either side.
struct Outcome {
  std::optional<FaultReport> prefill;  // fault kNone: well
  std::optional<FaultReport> decode;   // set when it ended otherwise than by arriving
  bool arrived = false;
  bool right = false;  // every byte and every token as computed
};

class HandoffRig {
 public:
  explicit HandoffRig(RigOptions options = {});
  ~HandoffRig();

  // New sessions over a new wire.
  void connect();
  // Polls both sides, until they are open or gave up; false when they gave up.
  bool open();
  // One poll of each side, and what they did then is taken in.
  void step();
  void step_prefill();
  void step_decode();
  // Steps and lets time pass until every transfer has come out on both sides. False: one hangs.
  bool settle(base::Nanoseconds limit = base::Nanoseconds{60'000'000'000});

  // Decode grants pages for a prompt of so many tokens; prefill opens it.
  bool grant(TransferId id, int32_t tokens);
  bool open_at_prefill(TransferId id, int32_t tokens);
  // Prefill computes the next page's tokens, and the first token after the last page. False when
  // it is done.
  bool compute(TransferId id);
  void compute_all(TransferId id);
  // Grants, opens and computes step by step.
  void run(TransferId id, int32_t tokens);

  Outcome& outcome(TransferId id) { return outcomes_[id]; }
  // What is wrong with the pools once nobody holds anything and quarantine had time to end; empty:
  // every page is back.
  std::string balance();

  base::ManualClock clock;
  FakeNetwork network;
  std::unique_ptr<kv::PagePool> prefill_pages;
  std::unique_ptr<kv::PagePool> decode_pages;
  SenderOptions sender_options;
  ReceiverOptions receiver_options;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;

 private:
  struct Prompt {
    kv::PageTable pages;
    wire::SequenceState state;
    int32_t tokens = 0;
    bool done = false;
  };
  void check(const Arrival& arrival);
  void fill(TransferId id, const kv::PageTable& pages, int32_t begin, int32_t end);

  std::map<TransferId, Prompt> prompts_;
  std::map<TransferId, Outcome> outcomes_;
};

// One page's bytes as prefill computes them, and as decode must get them.
std::byte source_byte(TransferId id, size_t page_index, size_t offset);
void convert_for_test(std::span<const std::byte> page, int32_t tokens, std::span<std::byte> out);
kv::PageLayout rig_layout();

}  // namespace bulkhead::transfer::remote
