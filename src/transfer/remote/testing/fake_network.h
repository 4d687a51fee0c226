// Connections inside one process whose frames get lost, late, doubled or damaged as a test says.
//
// Threads: one. Invariant: without a plan a frame arrives once, whole and in order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transfer/remote/transport.h"

namespace bulkhead::transfer::remote {

enum class NetFault {
  kNone,
  kDrop,
  kDuplicate,
  kReorder,  // comes after the next frame of its direction
  kDelay,    // comes late, others pass it
  kTruncate,
  kCorrupt,    // one bit
  kPartition,  // neither this frame nor any later one of its direction arrives
  kBreak,      // the connection closes
};
inline constexpr NetFault kAllNetFaults[] = {
    NetFault::kNone,    NetFault::kDrop,      NetFault::kDuplicate,
    NetFault::kReorder, NetFault::kDelay,     NetFault::kTruncate,
    NetFault::kCorrupt, NetFault::kPartition, NetFault::kBreak,
};
std::string_view to_string(NetFault fault);

struct FakeOptions {
  size_t room = 64;                        // frames under way in one direction
  base::Nanoseconds delay{1'000'000'000};  // of a kDelay
};

// One frame as it was posted.
struct RecordedFrame {
  int32_t direction = 0;  // 0: from the first end to the second
  Frame bytes;
};

class FakeNetwork {
 public:
  // Decides about one frame; `number` counts the frames of its direction from 0.
  using Plan =
      std::function<NetFault(int32_t direction, std::span<const std::byte> frame, uint64_t number)>;

  explicit FakeNetwork(const base::Clock& clock, FakeOptions options = {});
  ~FakeNetwork();

  struct Ends {
    std::unique_ptr<Connection> first;
    std::unique_ptr<Connection> second;
  };
  Ends connect();
  void set_plan(Plan plan);
  // Delivers a frame that nobody posted.
  void inject(int32_t direction, Frame frame);
  const std::vector<RecordedFrame>& recorded() const;

 private:
  struct Wire;
  class End;
  const base::Clock& clock_;
  const FakeOptions options_;
  std::shared_ptr<Wire> wire_;  // of the last connect()
  Plan plan_;
};

}  // namespace bulkhead::transfer::remote
