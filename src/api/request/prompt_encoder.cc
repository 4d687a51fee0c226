#include "api/request/prompt_encoder.h"

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "text/unicode.h"

namespace bulkhead::api {
namespace {

size_t spaces_at_start(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const text::Char c = text::char_at(text, length);
    if (!c.is_space()) break;
    length += c.length;
  }
  return length;
}

size_t spaces_at_end(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const text::Char c = text::char_before(text, end);
    if (!c.is_space()) break;
    end -= c.length;
  }
  return text.size() - end;
}

bool is_word(text::Char c) { return (c.flags & text::kWordFlag) != 0; }

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word(text::char_before(text, begin))) return false;
  return end == text.size() || !is_word(text::char_at(text, end));
}

}  // namespace

PromptEncoder::PromptEncoder(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (const text::AddedToken& token : tokenizer.added_tokens()) {
    if (token.content.empty()) continue;
    by_first_byte_[static_cast<unsigned char>(token.content.front())].push_back(token);
  }
  for (auto& bucket : by_first_byte_) {
    std::sort(bucket.begin(), bucket.end(), [](const auto& a, const auto& b) {
      return a.content.size() != b.content.size() ? a.content.size() > b.content.size()
                                                  : a.id < b.id;
    });
  }
  for (size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    longest_token_bytes_ = std::max<uint64_t>(
        longest_token_bytes_, tokenizer.token_bytes(static_cast<wire::TokenId>(id)).size());
  }
}

uint64_t PromptEncoder::bytes_max(int64_t tokens) const {
  uint64_t bytes = 0;
  if (!base::checked_mul(static_cast<uint64_t>(std::max<int64_t>(tokens, 0)), longest_token_bytes_,
                         &bytes)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return bytes;
}

const text::AddedToken* PromptEncoder::longest_at(std::string_view text, size_t at, size_t end,
                                                  bool normalized) const {
  const std::string_view rest = text.substr(at, end - at);
  for (const text::AddedToken& token : by_first_byte_[static_cast<unsigned char>(text[at])]) {
    if (token.normalized == normalized && rest.starts_with(token.content)) return &token;
  }
  return nullptr;
}

void PromptEncoder::find_matches(std::string_view text, Range within,
                                 const std::vector<Range>& trusted, bool normalized,
                                 std::vector<Match>& out) const {
  const std::string_view piece = text.substr(within.begin, within.end - within.begin);
  size_t taken = within.begin;  // where the previous match ended, white space included
  auto segment = std::partition_point(trusted.begin(), trusted.end(), [&](const Range& range) {
    return range.end <= within.begin;
  });
  for (; segment != trusted.end() && segment->begin < within.end; ++segment) {
    const size_t end = std::min(segment->end, within.end);
    size_t at = std::max(segment->begin, within.begin);
    while (at < end) {
      const text::AddedToken* token = longest_at(text, at, end, normalized);
      if (token == nullptr) {
        ++at;
        continue;
      }
      Match match{at, at + token->content.size(), token->id};
      at = match.end;
      if (token->single_word &&
          !stands_alone(piece, match.begin - within.begin, match.end - within.begin)) {
        continue;
      }
      if (token->lstrip) {
        match.begin -= spaces_at_end(text.substr(within.begin, match.begin - within.begin));
        match.begin = std::max(match.begin, taken);
      }
      if (token->rstrip) {
        match.end += spaces_at_start(text.substr(match.end, within.end - match.end));
      }
      taken = match.end;
      out.push_back(match);
    }
  }
}

std::vector<wire::TokenId> PromptEncoder::encode(const chat::Prompt& prompt) const {
  const std::string text = prompt.text();
  std::vector<Range> trusted;
  size_t offset = 0;
  for (const chat::PromptSegment& segment : prompt.segments) {
    if (segment.trusted) trusted.push_back({offset, offset + segment.text.size()});
    offset += segment.text.size();
  }

  // Two passes as in the reference: tokens matched in the raw text, then, in what lies between
  // them, tokens matched in normalised text.
  std::vector<Match> first;
  find_matches(text, {0, text.size()}, trusted, false, first);
  std::vector<Match> matches;
  size_t at = 0;
  for (const Match& match : first) {
    if (at < match.begin) find_matches(text, {at, match.begin}, trusted, true, matches);
    matches.push_back(match);
    at = match.end;
  }
  if (at < text.size()) find_matches(text, {at, text.size()}, trusted, true, matches);

  std::vector<wire::TokenId> ids;
  const auto encode_run = [&](size_t begin, size_t end) {
    if (begin >= end) return;
    tokenizer_.encode(std::string_view(text).substr(begin, end - begin), text::AddedTokens::kAsText,
                      ids);
  };
  at = 0;
  for (const Match& match : matches) {
    encode_run(at, match.begin);
    ids.push_back(match.id);
    at = match.end;
  }
  encode_run(at, text.size());
  return ids;
}

std::vector<wire::TokenId> PromptEncoder::encode_plain(std::string_view text) const {
  const auto prefix = tokenizer_.prefix_ids();
  std::vector<wire::TokenId> ids(prefix.begin(), prefix.end());
  tokenizer_.encode(text, text::AddedTokens::kRecognise, ids);
  return ids;
}

}  // namespace bulkhead::api
