// Rendered prompts to token ids: control tokens only where the template wrote them.
//
// Threads: immutable; any thread. Invariants: an added token is recognised only where all of its
// characters stand in one trusted segment; everything between two recognised tokens is encoded as
// one plain text whatever segments it came from, so ordinary text gets exactly the ids that the
// reference gives (merges run across the border between template and user text).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/prompt.h"
#include "text/tokenizer.h"
#include "wire/types.h"

namespace bulkhead::api {

class PromptEncoder {
 public:
  // `tokenizer` must outlive the encoder.
  explicit PromptEncoder(const text::Tokenizer& tokenizer);

  // A chat prompt. Nothing is put before it: templates write the BOS token themselves.
  std::vector<wire::TokenId> encode(const chat::Prompt& prompt) const;
  // A plain prompt, whose author is trusted with control tokens, after the tokenizer's prefix.
  std::vector<wire::TokenId> encode_plain(std::string_view text) const;

  // No prompt of more bytes can have `tokens` tokens or fewer.
  uint64_t bytes_max(int64_t tokens) const;

 private:
  struct Match {
    size_t begin = 0;  // with the white space that the token takes along
    size_t end = 0;
    wire::TokenId id = 0;
  };
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };

  // Matches of the tokens of one pass inside `within`, leftmost and longest first, in order.
  void find_matches(std::string_view text, Range within, const std::vector<Range>& trusted,
                    bool normalized, std::vector<Match>& out) const;
  const text::AddedToken* longest_at(std::string_view text, size_t at, size_t end,
                                     bool normalized) const;

  const text::Tokenizer& tokenizer_;
  std::array<std::vector<text::AddedToken>, 256> by_first_byte_;  // longest first
  uint64_t longest_token_bytes_ = 1;
};

}  // namespace bulkhead::api
