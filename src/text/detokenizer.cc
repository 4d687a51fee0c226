#include "text/detokenizer.h"

#include <utility>

#include "base/utf8.h"

namespace bulkhead::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special) {}

std::string Detokenizer::push(TokenId id) {
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  pending_ += tokenizer_.token_bytes(id);
  const size_t complete = base::complete_utf8_prefix(pending_);
  std::string piece = base::to_valid_utf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return piece;
}

std::string Detokenizer::flush() { return base::to_valid_utf8(std::exchange(pending_, {})); }

}  // namespace bulkhead::text
