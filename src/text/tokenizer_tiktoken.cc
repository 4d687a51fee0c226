#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "text/tokenizer_parts.h"

namespace bulkhead::text {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNoDigit = 0xFF;

std::array<uint8_t, 256> digit_table() {
  std::array<uint8_t, 256> table;
  table.fill(kNoDigit);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  return table;
}

// RFC 4648 with padding; false for anything else.
bool decode_base64(std::string_view text, std::string& out) {
  static const std::array<uint8_t, 256> digits = digit_table();
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  out.clear();
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i + padding >= text.size();
    const uint8_t digit = is_padding ? 0 : digits[static_cast<unsigned char>(text[i])];
    if (digit == kNoDigit) return false;
    bits = bits << 6 | digit;
    if (i % 4 != 3) continue;
    for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(bits >> shift & 0xFF);
    bits = 0;
  }
  out.resize(out.size() - padding);
  return true;
}

base::Status add_line(std::string_view line, size_t number, BpeVocabulary& vocabulary) {
  const std::string where = "line " + std::to_string(number + 1);
  const size_t space = line.find(' ');
  VocabularyEntry entry;
  entry.raw = true;
  if (space == std::string_view::npos || !decode_base64(line.substr(0, space), entry.piece)) {
    return base::corrupt(where + " is not base64, a space and a rank");
  }
  const std::string_view rank = line.substr(space + 1);
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), entry.id);
  if (error != std::errc() || end != rank.data() + rank.size() ||
      static_cast<size_t>(entry.id) != number) {
    return base::corrupt(where + " must have rank " + std::to_string(number));
  }
  vocabulary.entries.push_back(std::move(entry));
  return {};
}

base::Status add_ranks(std::string_view file, BpeVocabulary& vocabulary) {
  if (file.size() > kMaxFileBytes) return base::corrupt("larger than 64 MiB");
  for (size_t number = 0; !file.empty(); ++number) {
    const size_t end = std::min(file.find('\n'), file.size());
    if (number >= kMaxVocabulary) {
      return base::corrupt("more than " + std::to_string(kMaxVocabulary) + " tokens");
    }
    BH_TRY(add_line(file.substr(0, end), number, vocabulary));
    file.remove_prefix(std::min(end + 1, file.size()));
  }
  return {};
}

base::Status add_special_slots(const std::vector<AddedToken>& named, TokenizerParts& parts) {
  const auto first = static_cast<TokenId>(parts.vocabulary.entries.size());
  const auto last = first + static_cast<TokenId>(kTiktokenSpecialSlots) - 1;
  std::array<bool, kTiktokenSpecialSlots> taken{};
  for (const AddedToken& token : named) {
    if (token.id < first || token.id > last) {
      return base::corrupt("added token " + std::to_string(token.id) + " is outside the slots " +
                           std::to_string(first) + " to " + std::to_string(last));
    }
    taken[static_cast<size_t>(token.id - first)] = true;
    parts.added.push_back(token);
  }
  for (TokenId id = first; id <= last; ++id) {
    if (taken[static_cast<size_t>(id - first)]) continue;
    AddedToken reserved;
    reserved.id = id;
    reserved.content = "<|reserved_token_" + std::to_string(id) + "|>";
    reserved.special = true;
    parts.added.push_back(std::move(reserved));
  }
  return {};
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> Tokenizer::from_tiktoken(const TiktokenVocabulary& file) {
  TokenizerParts parts;
  parts.vocabulary.merge_by_id = true;
  parts.vocabulary.ignore_merges = true;
  parts.steps.push_back(match_kimi);
  base::Status read = add_ranks(file.ranks, parts.vocabulary);
  if (read.ok()) read = add_special_slots(file.added, parts);
  if (!read.ok()) return std::move(read).error().within("tiktoken.model");
  auto tokenizer = assemble(std::move(parts));
  if (!tokenizer.ok()) return std::move(tokenizer).error().within("tiktoken.model");
  return tokenizer;
}

}  // namespace bulkhead::text
