// str's algorithms on marked text, by character.
//
// Threads: as the heap. Invariant: every piece of a result carries the marks of the text it came
// from; what an operation invents is untrusted.
#pragma once

#include <string_view>
#include <vector>

#include "chat/jinja/unicode.h"
#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

// Byte offsets, npos when absent.
size_t find_text(Heap& heap, std::string_view text, std::string_view wanted, size_t from = 0);
size_t rfind_text(Heap& heap, std::string_view text, std::string_view wanted);

size_t count_characters(Heap& heap, std::string_view text);
// `count` characters from character `from`; clamped to the text.
Str characters(Heap& heap, const Str& text, size_t from, size_t count);

enum class Side : uint8_t { kLeft, kRight, kBoth };
// Without the characters of `set` (null: whitespace) at its ends.
Str strip(Heap& heap, const Str& text, const Str* set, Side side);

// str.split / str.rsplit; `separator` null: runs of whitespace. max < 0: no limit.
std::vector<Str> split(Heap& heap, const Str& text, const Str* separator, Int max);
std::vector<Str> rsplit(Heap& heap, const Str& text, const Str* separator, Int max);
std::vector<Str> split_lines(Heap& heap, const Str& text, bool keep_ends);

Str replace(Heap& heap, const Str& text, const Str& old, const Str& with, Int max);
Str join(Heap& heap, const Str& separator, const std::vector<Str>& parts);

Str map_case(Heap& heap, const Str& text, CaseMap map);
Str capitalize(Heap& heap, const Str& text);
Str title(Heap& heap, const Str& text);
Str swap_case(Heap& heap, const Str& text);

// str.isupper / str.islower.
bool has_case(Heap& heap, std::string_view text, bool upper);

// &, <, >, ' and " as markupsafe writes them.
Str html_escape(Heap& heap, const Str& text);

// `width` characters with `fill` around; align is '<', '>' or '^' (as str.center rounds).
Str pad(Heap& heap, const Str& text, Int width, const Str& fill, char align);

}  // namespace bulkhead::chat::jinja
