#include "transfer/remote/testing/fake_network.h"

#include <array>
#include <optional>
#include <utility>

#include "base/check.h"

namespace bulkhead::transfer::remote {

std::string_view to_string(NetFault fault) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "none", "drop", "duplicate", "reorder", "delay", "truncate", "corrupt", "partition", "break",
  };
  return kNames[static_cast<size_t>(fault)];
}

struct FakeNetwork::Wire {
  struct UnderWay {
    Frame bytes;
    base::Nanoseconds due{0};
  };
  struct Direction {
    std::deque<UnderWay> frames;
    std::optional<Frame> held_back;
    uint64_t posted = 0;
    bool cut = false;
  };
  const base::Clock* clock = nullptr;
  FakeOptions options;
  std::array<Direction, 2> directions;
  bool closed = false;
  Plan plan;
  std::vector<RecordedFrame> recorded;

  void deliver(Direction& to, Frame bytes, base::Nanoseconds due) {
    to.frames.push_back({std::move(bytes), due});
    if (to.held_back) {
      to.frames.push_back({*std::move(to.held_back), due});
      to.held_back.reset();
    }
  }

  void post(int32_t direction, Frame bytes) {
    Direction& to = directions[static_cast<size_t>(direction)];
    recorded.push_back({direction, bytes});
    const auto now = clock->now();
    NetFault fault = plan ? plan(direction, bytes, to.posted) : NetFault::kNone;
    ++to.posted;
    if (to.cut) fault = NetFault::kDrop;
    switch (fault) {
      case NetFault::kNone:
        deliver(to, std::move(bytes), now);
        break;
      case NetFault::kDrop:
        break;
      case NetFault::kDuplicate:
        deliver(to, bytes, now);
        deliver(to, std::move(bytes), now);
        break;
      case NetFault::kReorder:
        to.held_back = std::move(bytes);
        break;
      case NetFault::kDelay:
        deliver(to, std::move(bytes), now + options.delay);
        break;
      case NetFault::kTruncate:
        bytes.resize(bytes.size() / 2);
        deliver(to, std::move(bytes), now);
        break;
      case NetFault::kCorrupt:
        bytes[bytes.size() - 1] ^= std::byte{0x10};
        deliver(to, std::move(bytes), now);
        break;
      case NetFault::kPartition:
        to.cut = true;
        break;
      case NetFault::kBreak:
        closed = true;
        break;
    }
  }
};

class FakeNetwork::End final : public Connection {
 public:
  End(std::shared_ptr<Wire> wire, int32_t direction)
      : wire_(std::move(wire)), direction_(direction) {}
  ~End() override { wire_->closed = true; }

  State state() const override { return wire_->closed ? State::kClosed : State::kOpen; }
  std::string reason() const override { return "the wire was cut"; }
  bool can_post() const override {
    return wire_->directions[static_cast<size_t>(direction_)].frames.size() < wire_->options.room;
  }
  void post(Frame& frame) override {
    BH_CHECK(can_post(), "room for the frame");
    if (!wire_->closed) wire_->post(direction_, std::exchange(frame, {}));
    frame.clear();
  }
  bool poll(Frame& frame) override {
    auto& frames = wire_->directions[static_cast<size_t>(1 - direction_)].frames;
    for (auto next = frames.begin(); next != frames.end(); ++next) {
      if (next->due > wire_->clock->now()) continue;
      frame = std::move(next->bytes);
      frames.erase(next);
      return true;
    }
    return false;
  }
  bool drained() override { return true; }
  void close() override { wire_->closed = true; }

 private:
  std::shared_ptr<Wire> wire_;
  const int32_t direction_;
};

FakeNetwork::FakeNetwork(const base::Clock& clock, FakeOptions options)
    : clock_(clock), options_(options) {}
FakeNetwork::~FakeNetwork() = default;

FakeNetwork::Ends FakeNetwork::connect() {
  wire_ = std::make_shared<Wire>();
  wire_->clock = &clock_;
  wire_->options = options_;
  wire_->plan = plan_;
  return {std::make_unique<End>(wire_, 0), std::make_unique<End>(wire_, 1)};
}

void FakeNetwork::set_plan(Plan plan) {
  plan_ = std::move(plan);
  if (wire_ != nullptr) wire_->plan = plan_;
}

void FakeNetwork::inject(int32_t direction, Frame frame) {
  auto& to = wire_->directions[static_cast<size_t>(direction)];
  wire_->deliver(to, std::move(frame), clock_.now());
}

const std::vector<RecordedFrame>& FakeNetwork::recorded() const { return wire_->recorded; }

}  // namespace bulkhead::transfer::remote
