// Token ids to text as they arrive, never splitting a character.
//
// Threads: one detokenizer per generation, one thread at a time.
// Invariants: the concatenation of all returned pieces and the final flush equals the whole decode
// (invalid bytes as U+FFFD) under every split of the ids; a piece never ends inside a character
// that a later token could complete.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace bulkhead::text {

class Detokenizer {
 public:
  // `tokenizer` must outlive the detokenizer.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special);

  // The text that `id` completes; may be empty.
  std::string push(TokenId id);
  // What is still held back, with U+FFFD for an unfinished character. Call once, at the end.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  std::string pending_;  // at most the first three bytes of one character
};

}  // namespace bulkhead::text
