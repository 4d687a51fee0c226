#include "constraint/literal.h"

#include <utility>

namespace bulkhead::constraint {

Literal::Literal(std::string text, const Vocabulary& vocabulary)
    : text_(std::move(text)), fallback_(text_.size() + 1, 0), blocked_(text_.size()) {
  for (size_t i = 1, border = 0; i < text_.size(); ++i) {
    while (border > 0 && text_[i] != text_[border]) border = fallback_[border];
    if (text_[i] == text_[border]) ++border;
    fallback_[i + 1] = border;
  }
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& bytes = vocabulary.tokens[id];
    const size_t last = bytes.find(text_.back());
    if (last == std::string::npos || last + 1 == bytes.size()) continue;
    for (size_t matched = 0; matched < text_.size(); ++matched) {
      if (!advance(matched, bytes)) blocked_[matched].push_back(static_cast<wire::TokenId>(id));
    }
  }
}

std::optional<size_t> Literal::advance(size_t matched, std::string_view bytes) const {
  for (const char c : bytes) {
    if (matched == text_.size()) return std::nullopt;
    while (matched > 0 && c != text_[matched]) matched = fallback_[matched];
    if (c == text_[matched]) ++matched;
  }
  return matched;
}

}  // namespace bulkhead::constraint
