// Waits for a text in a stream of tokens.
//
// Threads: immutable after construction. Invariants: the text may be split over tokens anyhow; a
// token that would run on behind the end of the text is among the `blocked` ones, so that what
// comes after the text begins with a token of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/vocabulary.h"

namespace bulkhead::constraint {

class Literal {
 public:
  // `text` is not empty; the vocabulary is looked at here only.
  Literal(std::string text, const Vocabulary& vocabulary);

  // How much of the text is matched after `bytes`, when `matched` of it was before; size() when it
  // is complete. Nothing: it would be complete before the end of `bytes`.
  std::optional<size_t> advance(size_t matched, std::string_view bytes) const;
  size_t size() const { return text_.size(); }
  // Tokens for which advance() gives nothing.
  std::span<const wire::TokenId> blocked(size_t matched) const { return blocked_[matched]; }

 private:
  const std::string text_;
  std::vector<size_t> fallback_;  // the longest border of each prefix
  std::vector<std::vector<wire::TokenId>> blocked_;
};

}  // namespace bulkhead::constraint
