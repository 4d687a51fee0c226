#include "base/utf8.h"

#include "base/check.h"

namespace bulkhead::base {
namespace {

// What a lead byte promises: sequence length and the allowed range of the second byte.
struct Lead {
  uint32_t length;
  unsigned char low;
  unsigned char high;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many bytes of `text` form a valid sequence or a valid start of one.
uint32_t matched_bytes(std::string_view text, const Lead& lead) {
  uint32_t matched = 1;
  while (matched < lead.length && matched < text.size()) {
    const auto byte = static_cast<unsigned char>(text[matched]);
    const unsigned char low = matched == 1 ? lead.low : 0x80;
    const unsigned char high = matched == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) break;
    ++matched;
  }
  return matched;
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) {
  BH_CHECK(!text.empty(), "decode_utf8 needs a byte");
  const auto first = static_cast<unsigned char>(text[0]);
  const Lead lead = lead_of(first);
  if (lead.length == 1) return {first, 1, true};
  if (lead.length == 0) return {kReplacementCharacter, 1, false};
  const uint32_t matched = matched_bytes(text, lead);
  if (matched < lead.length) return {kReplacementCharacter, matched, false};
  char32_t code_point = first & (0xFFu >> (lead.length + 1));
  for (uint32_t i = 1; i < lead.length; ++i) {
    code_point = (code_point << 6) | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  return {code_point, lead.length, true};
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (!c.valid) return false;
    text.remove_prefix(c.length);
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    append_utf8(out, c.code_point);
    text.remove_prefix(c.length);
  }
  return out;
}

size_t complete_utf8_prefix(std::string_view text) {
  // Only the last three bytes can start a character that is still short of its end.
  const size_t window = text.size() < 3 ? text.size() : 3;
  for (size_t back = 1; back <= window; ++back) {
    const size_t at = text.size() - back;
    const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
    if (lead.length > back && matched_bytes(text.substr(at), lead) == back) return at;
  }
  return text.size();
}

}  // namespace bulkhead::base
