// The regular expressions of published pre-tokenizers, as hand-written scanners.
//
// Threads: pure functions.
// Invariants: a scanner finds exactly what the regular expression finds with leftmost-first
// alternatives, in time linear in the text it looks over; the text's end is the end of input for
// look-ahead.
#pragma once

#include <cstddef>
#include <string_view>

namespace bulkhead::text {

// End of the match that starts at `at`, or `at` itself when nothing matches there. `at` is inside
// `text`. Matches are never empty.
using Matcher = size_t (*)(std::string_view text, size_t at);

// The scanner of a regular expression known by its exact text (line breaks may be written literally
// or as \r and \n); nullptr for any other.
Matcher find_pattern(std::string_view regex);
// The published spelling of a scanner's pattern.
std::string_view regex_of(Matcher matcher);
// True for a known pattern that leaves no character of any text unmatched.
bool matches_everything(std::string_view regex);

// GPT-2's pattern, which ByteLevel applies with use_regex.
size_t match_gpt2(std::string_view text, size_t at);
// The patterns that GGUF files know by name.
size_t match_llama3(std::string_view text, size_t at);
size_t match_qwen2(std::string_view text, size_t at);
size_t match_o200k(std::string_view text, size_t at);
// Kimi's: o200k with runs of Chinese characters apart, and no slash in the tail of signs.
size_t match_kimi(std::string_view text, size_t at);

}  // namespace bulkhead::text
