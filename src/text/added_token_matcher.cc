#include "text/added_token_matcher.h"

#include <algorithm>

#include "text/unicode.h"

namespace bulkhead::text {
namespace {

bool touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && (char_before(text, begin).flags & kWordFlag) != 0) return true;
  return end < text.size() && (char_at(text, end).flags & kWordFlag) != 0;
}

size_t before_spaces(std::string_view text, size_t at, size_t floor) {
  while (at > floor) {
    const Char c = char_before(text, at);
    if (!c.is_space() || at - floor < c.length) break;
    at -= c.length;
  }
  return at;
}

size_t after_spaces(std::string_view text, size_t at) {
  while (at < text.size() && char_at(text, at).is_space()) at += char_at(text, at).length;
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher() : nodes_(1) {}

void AddedTokenMatcher::add(std::string_view content, const AddedToken& token) {
  if (content.empty()) return;
  uint32_t node = 0;
  for (const char byte : content) {
    uint32_t next = node == 0 ? roots_[static_cast<unsigned char>(byte)] : child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({0, nodes_[node].first_child, -1, byte});
      nodes_[node].first_child = next;
      if (node == 0) roots_[static_cast<unsigned char>(byte)] = next;
    }
    node = next;
  }
  if (nodes_[node].rule >= 0) return;
  nodes_[node].rule = static_cast<int32_t>(rules_.size());
  rules_.push_back({token.id, token.lstrip, token.rstrip, token.single_word});
}

uint32_t AddedTokenMatcher::child(uint32_t node, char byte) const {
  uint32_t at = nodes_[node].first_child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].next_sibling;
  return at;
}

std::pair<int32_t, size_t> AddedTokenMatcher::longest_at(std::string_view text, size_t at) const {
  std::pair<int32_t, size_t> best{-1, 0};
  uint32_t node = roots_[static_cast<unsigned char>(text[at])];
  for (size_t length = 1; node != 0; ++length) {
    if (nodes_[node].rule >= 0) best = {nodes_[node].rule, length};
    if (at + length == text.size()) break;
    node = child(node, text[at + length]);
  }
  return best;
}

void AddedTokenMatcher::find_all(std::string_view text, std::vector<AddedMatch>& out) const {
  if (rules_.empty()) return;
  size_t taken = 0;  // end of the last match, its white space included
  for (size_t at = 0; at < text.size();) {
    const auto [index, length] = longest_at(text, at);
    if (index < 0) {
      ++at;
      continue;
    }
    const Rule& rule = rules_[static_cast<size_t>(index)];
    const size_t begin = at;
    const size_t end = at + length;
    at = end;
    if (rule.single_word && touches_word(text, begin, end)) continue;
    const size_t from = rule.lstrip ? before_spaces(text, begin, std::min(begin, taken)) : begin;
    const size_t to = rule.rstrip ? after_spaces(text, end) : end;
    out.push_back({from, to, rule.id});
    taken = at = to;
  }
}

}  // namespace bulkhead::text
