#include "serve/roles/testing/local_hub.h"

#include <array>
#include <utility>

#include "base/check.h"

namespace bulkhead::serve::roles::testing {

using transfer::remote::Connection;
using transfer::remote::Frame;
using transfer::remote::Transport;

struct LocalHub::Wire {
  std::array<std::deque<Frame>, 2> frames;  // by sender
  std::array<bool, 2> closed{};
  size_t room = 0;
};

class LocalHub::End final : public Connection {
 public:
  End(std::shared_ptr<Wire> wire, size_t side) : wire_(std::move(wire)), side_(side) {}
  ~End() override { wire_->closed[side_] = true; }

  State state() const override {
    // What the other side sent before it went can still be read.
    const bool gone = wire_->closed[1 - side_] && wire_->frames[1 - side_].empty();
    return wire_->closed[side_] || gone ? State::kClosed : State::kOpen;
  }
  std::string reason() const override { return "the connection was closed"; }
  bool can_post() const override { return wire_->frames[side_].size() < wire_->room; }
  void post(Frame& frame) override {
    BH_CHECK(can_post(), "room for the frame");
    wire_->frames[side_].push_back(std::exchange(frame, {}));
  }
  bool poll(Frame& frame) override {
    auto& frames = wire_->frames[1 - side_];
    if (wire_->closed[side_] || frames.empty()) return false;
    frame = std::move(frames.front());
    frames.pop_front();
    return true;
  }
  bool drained() override { return true; }
  void close() override { wire_->closed[side_] = true; }

 private:
  std::shared_ptr<Wire> wire_;
  const size_t side_;
};

class LocalHub::Door final : public Transport {
 public:
  Door(LocalHub& hub, std::string address) : hub_(hub), address_(std::move(address)) {
    if (!address_.empty()) hub_.listeners_[address_] = Arrivals();
  }
  ~Door() override { hub_.listeners_.erase(address_); }

  void progress() override {}
  base::Result<std::unique_ptr<Connection>> connect(const std::string& address) override {
    const auto found = hub_.listeners_.find(address);
    if (found == hub_.listeners_.end()) {
      return base::Error{base::ErrorCode::kUnavailable, "nobody listens there", {}};
    }
    auto wire = std::make_shared<Wire>();
    wire->room = hub_.room_;
    found->second.push_back(std::make_unique<End>(wire, 1));
    return std::unique_ptr<Connection>(std::make_unique<End>(std::move(wire), 0));
  }
  std::unique_ptr<Connection> accept() override {
    if (address_.empty()) return nullptr;
    Arrivals& arrivals = hub_.listeners_[address_];
    if (arrivals.empty()) return nullptr;
    auto out = std::move(arrivals.front());
    arrivals.pop_front();
    return out;
  }
  std::string address() const override { return address_; }

 private:
  LocalHub& hub_;
  const std::string address_;
};

std::unique_ptr<Transport> LocalHub::join(const std::string& address) {
  return std::make_unique<Door>(*this, address);
}

}  // namespace bulkhead::serve::roles::testing
