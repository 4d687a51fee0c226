// Any bytes as tokenizer.json, and any bytes as text for it: up to a NUL byte the file, then the
// text.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using bulkhead::text::AddedTokens;
using bulkhead::text::Detokenizer;
using bulkhead::text::TokenId;
using bulkhead::text::Tokenizer;

constexpr std::string_view kText = "It's 1234 \xE4\xBD\xA0\n\n <s>e\xCC\x81\xFF  AbC";

void encode_and_decode(const Tokenizer& tokenizer, std::string_view text, AddedTokens added) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, added, ids);
  Detokenizer detokenizer(tokenizer, false);
  for (const TokenId id : ids) {
    BH_CHECK(id >= 0 && static_cast<size_t>(id) < tokenizer.vocabulary_size(), "id out of range");
    detokenizer.push(id);
  }
  detokenizer.flush();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const auto tokenizer = Tokenizer::from_json(input.substr(0, end));
  if (!tokenizer.ok()) return 0;
  const std::string_view text = end == std::string_view::npos ? kText : input.substr(end + 1);
  encode_and_decode(**tokenizer, text, AddedTokens::kRecognise);
  encode_and_decode(**tokenizer, text, AddedTokens::kAsText);
  return 0;
}
