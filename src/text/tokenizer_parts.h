// What tokenizer.json and GGUF both boil down to, and the tokenizer built from it.
//
// Threads: plain values.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "text/bpe_model.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace bulkhead::text {

struct TokenizerParts {
  BpeVocabulary vocabulary;
  std::vector<AddedToken> added;
  std::vector<SplitStep> steps;
  bool nfc = false;
  std::vector<TokenId> prefix;  // ids the post-processor puts before a plain prompt
  std::vector<TokenId> suffix;
};

// Checks that the parts fit together and builds the tokenizer.
base::Result<std::unique_ptr<Tokenizer>> assemble(TokenizerParts parts);

}  // namespace bulkhead::text
