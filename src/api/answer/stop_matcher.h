// Finds stop strings in text that arrives in pieces and holds back what might become one.
//
// Threads: one thread at a time. Invariants: the result depends on the text, never on how it was
// cut into pieces; the match that ends first wins, the longest of those that end together; what is
// held back is exactly the longest suffix that is a proper prefix of a stop string; time is linear
// in the text. Stop strings are valid UTF-8, so text is only ever cut between characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bulkhead::api {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that can be given out now: never part of a stop string. After a match: nothing.
  std::string push(std::string_view text);
  // What is held back; forgets it.
  std::string flush();

  // The stop string that was found; nothing while there is none.
  const std::string* match() const { return match_ ? &stops_[*match_] : nullptr; }

 private:
  // A node of the automaton (Aho and Corasick 1975) stands for a prefix of some stop string.
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> next;
    uint32_t fallback = 0;       // the longest proper suffix that is a node too
    uint32_t depth = 0;          // bytes
    std::optional<size_t> ends;  // the longest stop string that ends here
  };

  void insert(size_t index);
  void link();
  const uint32_t* child(uint32_t node, unsigned char byte) const;
  uint32_t step(uint32_t node, unsigned char byte) const;

  std::vector<std::string> stops_;
  std::vector<Node> nodes_;
  uint32_t state_ = 0;
  std::string held_;
  std::optional<size_t> match_;
};

}  // namespace bulkhead::api
