#include "transfer/by_reference.h"

#include <utility>

#include "base/check.h"

namespace bulkhead::transfer {

ByReference::ByReference(size_t capacity) : capacity_(capacity) { waiting_.reserve(capacity); }

void ByReference::offer(Handoff handoff) {
  BH_CHECK(waiting_.size() < capacity_, "prefill admits no more than the link can carry");
  waiting_.push_back(std::move(handoff));
}

std::optional<Handoff> ByReference::receive() { return waiting_.empty() ? std::nullopt : take(0); }

std::optional<Handoff> ByReference::withdraw(wire::Slot slot) {
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i].state.slot == slot) return take(i);
  }
  return std::nullopt;
}

std::optional<Handoff> ByReference::take(size_t index) {
  std::optional<Handoff> handoff(std::move(waiting_[index]));
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
  return handoff;
}

}  // namespace bulkhead::transfer
