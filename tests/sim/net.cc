#include "sim/net.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "sim/tamper.h"

namespace bulkhead::sim {

using transfer::remote::Connection;
using transfer::remote::Frame;
using transfer::remote::Transport;

struct SimNet::Wire {
  struct Direction {
    std::multimap<Nanoseconds, Frame> frames;  // by arrival
    Nanoseconds last_due{0};
    std::vector<std::byte> last_payload;  // of the last chunk
  };
  std::array<ProcessId, 2> process{};
  std::array<Direction, 2> directions;  // by sender
  std::array<bool, 2> closed{};
  bool dead = false;  // one of the two died without a word
  size_t room = 0;
  std::string name;
};

class SimNet::End final : public Connection {
 public:
  End(SimNet& net, std::shared_ptr<Wire> wire, size_t side)
      : net_(net), wire_(std::move(wire)), side_(side) {}
  ~End() override { wire_->closed[side_] = true; }

  State state() const override {
    // What the other side sent before it went can still be read.
    const bool gone =
        wire_->closed[1 - side_] && !wire_->dead && wire_->directions[1 - side_].frames.empty();
    return wire_->closed[side_] || gone ? State::kClosed : State::kOpen;
  }
  std::string reason() const override { return "the connection was closed"; }
  bool can_post() const override { return wire_->directions[side_].frames.size() < wire_->room; }
  void post(Frame& frame) override {
    BH_CHECK(can_post(), "room for the frame");
    net_.post(*wire_, side_, std::exchange(frame, {}));
  }
  bool poll(Frame& frame) override {
    auto& frames = wire_->directions[1 - side_].frames;
    if (wire_->closed[side_] || wire_->dead || frames.empty()) return false;
    if (frames.begin()->first > net_.events_.now()) return false;
    frame = std::move(frames.begin()->second);
    frames.erase(frames.begin());
    ++net_.delivered_;
    net_.digest_ = base::mix64(net_.digest_ ^ frame.size() ^
                               static_cast<uint64_t>(net_.events_.now().count()));
    return true;
  }
  bool drained() override { return true; }
  void close() override { wire_->closed[side_] = true; }

 private:
  SimNet& net_;
  std::shared_ptr<Wire> wire_;
  const size_t side_;
};

class SimNet::Door final : public Transport {
 public:
  Door(SimNet& net, ProcessId process, std::string address)
      : net_(net), process_(process), address_(std::move(address)) {
    if (!address_.empty()) net_.listeners_[address_] = {process_, {}};
  }
  ~Door() override { net_.listeners_.erase(address_); }

  void progress() override {}
  base::Result<std::unique_ptr<Connection>> connect(const std::string& address) override {
    const auto found = net_.listeners_.find(address);
    if (found == net_.listeners_.end()) {
      return base::Error{base::ErrorCode::kUnavailable, "nobody listens there", {}};
    }
    auto wire = std::make_shared<Wire>();
    wire->process = {process_, found->second.process};
    wire->room = net_.options_.room;
    wire->name = fmt::format("{}-{}", process_, address);
    found->second.arrivals.push_back(std::make_unique<End>(net_, wire, 1));
    std::erase_if(net_.wires_, [](const std::weak_ptr<Wire>& one) { return one.expired(); });
    net_.wires_.push_back(wire);
    return std::unique_ptr<Connection>(std::make_unique<End>(net_, std::move(wire), 0));
  }
  std::unique_ptr<Connection> accept() override {
    if (address_.empty()) return nullptr;
    auto& arrivals = net_.listeners_[address_].arrivals;
    if (arrivals.empty()) return nullptr;
    auto out = std::move(arrivals.front());
    arrivals.erase(arrivals.begin());
    return out;
  }
  std::string address() const override { return address_; }

 private:
  SimNet& net_;
  const ProcessId process_;
  const std::string address_;
};

SimNet::SimNet(const NetOptions& options, EventQueue& events, FaultLedger& faults)
    : options_(options), events_(events), faults_(faults), rng_(options.seed, 0x2e7) {}
SimNet::~SimNet() = default;

std::unique_ptr<Transport> SimNet::join(ProcessId process, const std::string& address) {
  return std::make_unique<Door>(*this, process, address);
}

void SimNet::silence(ProcessId process) {
  for (const auto& held : wires_) {
    const auto wire = held.lock();
    if (wire != nullptr && (wire->process[0] == process || wire->process[1] == process)) {
      wire->dead = true;
    }
  }
}

// --- one frame

Nanoseconds SimNet::delay() {
  const auto span = static_cast<uint64_t>((options_.delay_most - options_.delay_least).count()) + 1;
  return options_.delay_least + Nanoseconds{static_cast<int64_t>(rng_.below(span))};
}

Nanoseconds SimNet::draw(uint64_t number, Nanoseconds least, Nanoseconds most) const {
  const auto span = static_cast<uint64_t>((most - least).count()) + 1;
  return least + Nanoseconds{static_cast<int64_t>(faults_.bits(number) % span)};
}

void SimNet::post(Wire& wire, size_t side, Frame frame) {
  if (const auto left = posts_left_.find(wire.process[side]); left != posts_left_.end()) {
    if (left->second == 0) return;
    --left->second;
  }
  if (wire.dead || wire.closed[1 - side]) return;
  if (swallow(wire, side)) return;
  tamper(wire, side, frame);
  send(wire, side, std::move(frame));
}

// True when the frame never arrives.
bool SimNet::swallow(Wire& wire, size_t side) {
  const std::pair way(wire.process[side], wire.process[1 - side]);
  if (faults_.strikes(FaultKind::kBreak, wire.name)) {
    wire.closed = {true, true};
    return true;
  }
  if (faults_.strikes(FaultKind::kPartition, wire.name)) {
    cut_until_[way] = events_.now() + draw(0, milliseconds(20), milliseconds(3000));
  }
  const auto cut = cut_until_.find(way);
  if (cut != cut_until_.end() && events_.now() < cut->second) return true;
  return faults_.strikes(FaultKind::kDrop, wire.name);
}

void SimNet::tamper(Wire& wire, size_t side, Frame& frame) {
  if (faults_.strikes(FaultKind::kTruncate, wire.name)) {
    frame.resize(faults_.bits(0) % frame.size());
    return;
  }
  if (faults_.strikes(FaultKind::kCorrupt, wire.name)) {
    const uint64_t bit = faults_.bits(0) % (8 * frame.size());
    frame[bit / 8] ^= std::byte{1} << (bit % 8);
    return;
  }
  const bool payload = faults_.possible(FaultKind::kSwapPayload) ||
                       faults_.possible(FaultKind::kSwapLayers) ||
                       faults_.possible(FaultKind::kFlipPayload);
  if (payload) tamper_with_chunk(faults_, wire.name, wire.directions[side].last_payload, frame);
}

void SimNet::send(Wire& wire, size_t side, Frame frame) {
  Wire::Direction& way = wire.directions[side];
  Nanoseconds due = std::max(way.last_due, events_.now() + delay());
  if (faults_.strikes(FaultKind::kStall, wire.name)) {
    due += draw(0, milliseconds(20), milliseconds(2000));
  }
  way.last_due = due;
  if (faults_.strikes(FaultKind::kDuplicate, wire.name)) {
    way.frames.emplace(due + draw(0, Nanoseconds{0}, milliseconds(5)), frame);
  }
  if (faults_.strikes(FaultKind::kReplay, wire.name)) {
    way.frames.emplace(due + draw(0, milliseconds(100), milliseconds(2000)), frame);
  }
  // The others do not wait for this one.
  if (faults_.strikes(FaultKind::kReorder, wire.name)) {
    due += draw(0, Nanoseconds{1}, milliseconds(5));
  }
  if (faults_.strikes(FaultKind::kLate, wire.name)) {
    due += draw(0, milliseconds(500), milliseconds(3000));
  }
  way.frames.emplace(due, std::move(frame));
}

}  // namespace bulkhead::sim
