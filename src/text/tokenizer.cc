#include "text/tokenizer.h"

namespace bulkhead::text {

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  for (const TokenId id : ids) {
    if (!skip_special || !is_special(id)) out += token_bytes(id);
  }
  return out;
}

}  // namespace bulkhead::text
