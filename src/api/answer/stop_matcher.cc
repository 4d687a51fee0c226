#include "api/answer/stop_matcher.h"

#include <deque>

namespace bulkhead::api {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)), nodes_(1) {
  for (size_t i = 0; i < stops_.size(); ++i) insert(i);
  link();
}

const uint32_t* StopMatcher::child(uint32_t node, unsigned char byte) const {
  for (const auto& [label, target] : nodes_[node].next) {
    if (label == byte) return &target;
  }
  return nullptr;
}

void StopMatcher::insert(size_t index) {
  uint32_t node = 0;
  for (const char c : stops_[index]) {
    const auto byte = static_cast<unsigned char>(c);
    if (const uint32_t* found = child(node, byte)) {
      node = *found;
      continue;
    }
    const auto added = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({{}, 0, nodes_[node].depth + 1, std::nullopt});
    nodes_[node].next.emplace_back(byte, added);
    node = added;
  }
  if (!nodes_[node].ends && node != 0) nodes_[node].ends = index;
}

void StopMatcher::link() {
  std::deque<uint32_t> queue;
  for (const auto& [byte, target] : nodes_[0].next) queue.push_back(target);
  while (!queue.empty()) {
    const uint32_t node = queue.front();
    queue.pop_front();
    for (const auto& [byte, target] : nodes_[node].next) {
      nodes_[target].fallback = step(nodes_[node].fallback, byte);
      // The node's own string is longer than any that a fallback stands for.
      if (!nodes_[target].ends) nodes_[target].ends = nodes_[nodes_[target].fallback].ends;
      queue.push_back(target);
    }
  }
}

uint32_t StopMatcher::step(uint32_t node, unsigned char byte) const {
  while (true) {
    if (const uint32_t* found = child(node, byte)) return *found;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (match_) return {};
  if (nodes_.size() == 1) return std::string(text);
  for (const char c : text) {
    held_ += c;
    state_ = step(state_, static_cast<unsigned char>(c));
    if (!nodes_[state_].ends) continue;
    match_ = nodes_[state_].ends;
    std::string out = held_.substr(0, held_.size() - stops_[*match_].size());
    held_.clear();
    return out;
  }
  const size_t free = held_.size() - nodes_[state_].depth;
  std::string out = held_.substr(0, free);
  held_.erase(0, free);
  return out;
}

std::string StopMatcher::flush() {
  state_ = 0;
  return std::exchange(held_, {});
}

}  // namespace bulkhead::api
