// Small vocabularies for the tests of this folder.
//
// Threads: plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "text/byte_spelling.h"
#include "text/tokenizer.h"

namespace bulkhead::text {

// GPT-2's spelling of `bytes`, found by trying: the inverse of bytes_from_spelling.
inline std::string spelled(std::string_view bytes) {
  static const std::vector<std::string> spellings = [] {
    std::vector<std::string> out(256);
    for (char32_t c = 1; c < 0x200; ++c) {
      std::string text;
      base::append_utf8(text, c);
      const auto byte = bytes_from_spelling(text);
      if (byte) out[static_cast<unsigned char>(byte->front())] = text;
    }
    return out;
  }();
  std::string out;
  for (const char byte : bytes) out += spellings[static_cast<unsigned char>(byte)];
  return out;
}

// Ids 0..255 are the bytes, then one token per merge ("left right" in plain bytes), then the
// control token <|end|> and the user-defined token <tool>.
inline GgufVocabulary small_vocabulary(
    const std::vector<std::pair<std::string, std::string>>& merges, std::string pre = "gpt-2") {
  GgufVocabulary out;
  out.model = "gpt2";
  out.pre = std::move(pre);
  for (int byte = 0; byte < 256; ++byte) {
    out.tokens.push_back(spelled(std::string(1, static_cast<char>(byte))));
  }
  for (const auto& [left, right] : merges) {
    out.tokens.push_back(spelled(left + right));
    out.merges.push_back(spelled(left) + " " + spelled(right));
  }
  out.types.assign(out.tokens.size(), 1);
  out.tokens.emplace_back("<|end|>");
  out.types.push_back(3);
  out.tokens.emplace_back("<tool>");
  out.types.push_back(4);
  return out;
}

}  // namespace bulkhead::text
