// Finds added tokens in trusted text: leftmost first, then longest.
//
// Threads: immutable once built; any thread may search.
// Invariants: matches come in order and do not start inside one another; the cost per byte of text
// is bounded by the longest added token.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace bulkhead::text {

struct AddedMatch {
  size_t begin = 0;  // with the white space the token takes along
  size_t end = 0;
  TokenId id = 0;
};

class AddedTokenMatcher {
 public:
  static constexpr size_t kMaxTokens = size_t{1} << 16;
  static constexpr size_t kMaxContentBytes = 1024;
  static constexpr size_t kMaxTotalBytes = size_t{1} << 21;

  AddedTokenMatcher();

  // `content` is what to look for, `token` how; of two equal contents the first counts.
  void add(std::string_view content, const AddedToken& token);

  // Every match in `text`, appended to `out`.
  void find_all(std::string_view text, std::vector<AddedMatch>& out) const;

 private:
  struct Node {
    uint32_t first_child = 0;  // 0: none, since the root is nobody's child
    uint32_t next_sibling = 0;
    int32_t rule = -1;
    char byte = 0;
  };
  struct Rule {
    TokenId id;
    bool lstrip;
    bool rstrip;
    bool single_word;
  };

  uint32_t child(uint32_t node, char byte) const;
  // Rule and length of the longest content at `at`; rule -1 for none.
  std::pair<int32_t, size_t> longest_at(std::string_view text, size_t at) const;

  std::vector<Node> nodes_;
  std::vector<Rule> rules_;
  std::array<uint32_t, 256> roots_{};  // children of the root by first byte
};

}  // namespace bulkhead::text
