// Records what pools report, as text, for tests of one pool alone.
//
// Threads: one.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "wire/pools.h"

namespace bulkhead::engine::testing {

class EventTrace : public wire::PoolEvents {
 public:
  void on_prompt(wire::Slot slot, wire::PromptEvent event) override {
    lines_.push_back(fmt::format("{}: prompt {}+{}", slot, event.position, event.tokens.size()));
  }
  void on_token(wire::Slot slot, wire::TokenEvent event) override {
    lines_.push_back(fmt::format("{}: token {}", slot, event.token));
  }
  void on_offered(wire::Slot slot) override { lines_.push_back(fmt::format("{}: offered", slot)); }
  void on_accepted(wire::Slot slot) override {
    lines_.push_back(fmt::format("{}: accepted", slot));
  }
  void on_end(wire::Slot slot, wire::Ending ending) override {
    lines_.push_back(fmt::format("{}: end {}", slot, wire::to_string(ending.reason)));
    if (ending.stop_id >= 0) lines_.back() += fmt::format(" by {}", ending.stop_id);
  }
  void on_released(wire::Slot slot) override {
    lines_.push_back(fmt::format("{}: released", slot));
  }
  void on_cached(wire::Slot slot, int32_t tokens) override {
    lines_.push_back(fmt::format("{}: cached {}", slot, tokens));
  }
  void on_returned(wire::Slot slot, wire::SequenceState state) override {
    lines_.push_back(fmt::format("{}: returned", slot));
    returned_.push_back(std::move(state));
  }

  // What was recorded since the last call.
  std::vector<std::string> take() { return std::exchange(lines_, {}); }
  std::vector<wire::SequenceState> take_returned() { return std::exchange(returned_, {}); }

 private:
  std::vector<std::string> lines_;
  std::vector<wire::SequenceState> returned_;
};

}  // namespace bulkhead::engine::testing
