#include "chat/jinja/strings.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace bulkhead::chat::jinja {
namespace {

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }

// Byte offset of character `count`, or the text's size.
size_t offset_of(std::string_view text, size_t count) {
  size_t at = 0;
  while (at < text.size()) {
    if (starts_character(text[at]) && count-- == 0) break;
    ++at;
  }
  return at;
}

// Start of the character that ends just before `end`.
size_t previous(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && !starts_character(text[at])) --at;
  return at;
}

bool in_set(std::string_view character, const Str* set) {
  if (set == nullptr) return is_space(base::decode_utf8(character).code_point);
  return set->view().find(character) != std::string_view::npos;
}

std::string_view character_at(std::string_view text, size_t at) {
  return text.substr(at, base::decode_utf8(text.substr(at)).length);
}

// Splitting at whitespace, scanning forwards.
std::vector<Str> split_space(const Str& text, Int max) {
  std::vector<Str> parts;
  const std::string_view view = text.view();
  size_t at = 0;
  while (true) {
    while (at < view.size() && in_set(character_at(view, at), nullptr)) {
      at += character_at(view, at).size();
    }
    if (at >= view.size()) return parts;
    if (max >= 0 && static_cast<Int>(parts.size()) >= max) break;
    const size_t start = at;
    while (at < view.size() && !in_set(character_at(view, at), nullptr)) {
      at += character_at(view, at).size();
    }
    parts.push_back(text.sub(start, at - start));
  }
  parts.push_back(text.sub(at, view.size() - at));  // with what space it has
  return parts;
}

std::vector<Str> rsplit_space(const Str& text, Int max) {
  std::vector<Str> parts;
  const std::string_view view = text.view();
  const auto space_before = [view](size_t end) {
    const size_t start = previous(view, end);
    return in_set(view.substr(start, end - start), nullptr);
  };
  size_t end = view.size();
  while (true) {
    while (end > 0 && space_before(end)) end = previous(view, end);
    if (end == 0) break;
    if (max >= 0 && static_cast<Int>(parts.size()) >= max) {
      parts.push_back(text.sub(0, end));
      break;
    }
    const size_t stop = end;
    while (end > 0 && !space_before(end)) end = previous(view, end);
    parts.push_back(text.sub(end, stop - end));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

size_t find_text(Heap& heap, std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  const size_t size = text.size() - from;
  if (size < wanted.size()) return std::string_view::npos;
  // memmem is linear in both sizes, unlike string_view::find.
  const void* found = ::memmem(text.data() + from, size, wanted.data(), wanted.size());
  if (found == nullptr) {
    heap.charge_work(size);
    return std::string_view::npos;
  }
  const auto at = static_cast<size_t>(static_cast<const char*>(found) - text.data());
  heap.charge_work(at - from + wanted.size());
  return at;
}

size_t rfind_text(Heap& heap, std::string_view text, std::string_view wanted) {
  const size_t found = text.rfind(wanted);
  // Quadratic at worst, and charged as such.
  const size_t looked_at = found == std::string_view::npos ? text.size() : text.size() - found;
  heap.charge_work(looked_at * (1 + wanted.size() / 8));
  return found;
}

size_t count_characters(Heap& heap, std::string_view text) {
  heap.charge_work(text.size());
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

Str characters(Heap& heap, const Str& text, size_t from, size_t count) {
  const std::string_view view = text.view();
  const size_t start = offset_of(view, from);
  const size_t size = offset_of(view.substr(start), count);
  heap.charge_work(start + size);
  return text.sub(start, size);
}

Str strip(Heap& heap, const Str& text, const Str* set, Side side) {
  const std::string_view view = text.view();
  size_t start = 0;
  size_t end = view.size();
  if (side != Side::kRight) {
    while (start < end && in_set(character_at(view, start), set)) {
      start += character_at(view, start).size();
    }
  }
  if (side != Side::kLeft) {
    while (end > start) {
      const size_t last = previous(view, end);
      if (!in_set(view.substr(last, end - last), set)) break;
      end = last;
    }
  }
  const size_t looked_at = view.size() - (end - start) + 1;
  heap.charge_work(looked_at * (set == nullptr ? 1 : set->size + 1));
  return text.sub(start, end - start);
}

std::vector<Str> split(Heap& heap, const Str& text, const Str* separator, Int max) {
  heap.charge_work(text.size);
  std::vector<Str> parts;
  if (separator == nullptr) {
    parts = split_space(text, max);
  } else {
    if (separator->size == 0) fail("empty separator");
    const std::string_view view = text.view();
    size_t start = 0;
    while (max < 0 || static_cast<Int>(parts.size()) < max) {
      const size_t found = find_text(heap, view, separator->view(), start);
      if (found == std::string_view::npos) break;
      parts.push_back(text.sub(start, found - start));
      start = found + separator->size;
    }
    parts.push_back(text.sub(start, view.size() - start));
  }
  heap.charge_memory(parts.size() * (sizeof(Str) + sizeof(Value)));
  return parts;
}

std::vector<Str> rsplit(Heap& heap, const Str& text, const Str* separator, Int max) {
  heap.charge_work(text.size);
  std::vector<Str> parts;
  if (separator == nullptr) {
    parts = rsplit_space(text, max);
  } else {
    if (separator->size == 0) fail("empty separator");
    const std::string_view view = text.view();
    size_t end = view.size();
    while ((max < 0 || static_cast<Int>(parts.size()) < max) && end >= separator->size) {
      const size_t found = rfind_text(heap, view.substr(0, end), separator->view());
      if (found == std::string_view::npos) break;
      parts.push_back(text.sub(found + separator->size, end - found - separator->size));
      end = found;
    }
    parts.push_back(text.sub(0, end));
    std::reverse(parts.begin(), parts.end());
  }
  heap.charge_memory(parts.size() * (sizeof(Str) + sizeof(Value)));
  return parts;
}

std::vector<Str> split_lines(Heap& heap, const Str& text, bool keep_ends) {
  heap.charge_work(text.size);
  std::vector<Str> lines;
  const std::string_view view = text.view();
  size_t start = 0;
  for (size_t at = 0; at < view.size();) {
    const base::Utf8Char c = base::decode_utf8(view.substr(at));
    if (!is_line_break(c.code_point)) {
      at += c.length;
      continue;
    }
    const bool pair = view.substr(at).starts_with("\r\n");
    const size_t next = at + (pair ? 2 : c.length);
    lines.push_back(text.sub(start, (keep_ends ? next : at) - start));
    start = at = next;
  }
  if (start < view.size()) lines.push_back(text.sub(start, view.size() - start));
  heap.charge_memory(lines.size() * (sizeof(Str) + sizeof(Value)));
  return lines;
}

Str replace(Heap& heap, const Str& text, const Str& old, const Str& with, Int max) {
  heap.charge_work(text.size);
  StringBuilder out(heap);
  const std::string_view view = text.view();
  size_t start = 0;
  if (old.size == 0) {  // between all characters, and at both ends
    for (size_t at = 0; max != 0; --max) {
      out.append(with);
      if (at >= view.size()) break;
      const size_t length = character_at(view, at).size();
      out.append(text.sub(at, length));
      at += length;
      start = at;
    }
  } else {
    for (; max != 0; --max) {
      const size_t found = find_text(heap, view, old.view(), start);
      if (found == std::string_view::npos) break;
      out.append(text.sub(start, found - start));
      out.append(with);
      start = found + old.size;
    }
    if (start == 0) return text;
  }
  out.append(text.sub(start, view.size() - start));
  return out.finish();
}

Str join(Heap& heap, const Str& separator, const std::vector<Str>& parts) {
  StringBuilder out(heap);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(parts[i]);
  }
  return out.finish();
}

namespace {

// A capital sigma at the end of a word has a small form of its own.
bool is_final_sigma(std::string_view text, size_t at, size_t length) {
  const auto ignorable = [](char32_t c) {
    return c == '\'' || c == '.' || c == ':' || c == 0xAD || c == 0xB7 || c == 0x2019;
  };
  bool after_cased = false;
  for (size_t end = at; end > 0;) {
    const size_t start = previous(text, end);
    const char32_t c = base::decode_utf8(text.substr(start)).code_point;
    end = start;
    if (ignorable(c)) continue;
    after_cased = is_cased(c);
    break;
  }
  if (!after_cased) return false;
  for (size_t next = at + length; next < text.size();) {
    const base::Utf8Char c = base::decode_utf8(text.substr(next));
    next += c.length;
    if (ignorable(c.code_point)) continue;
    return !is_cased(c.code_point);
  }
  return true;
}

// Appends the character at `at`, mapped, with its own mark; returns its length in bytes.
size_t append_case(StringBuilder& out, const Str& text, size_t at, CaseMap map) {
  const std::string_view view = text.view();
  const base::Utf8Char c = base::decode_utf8(view.substr(at));
  std::string mapped;
  constexpr char32_t kCapitalSigma = 0x3A3;
  if (c.code_point == kCapitalSigma && map == CaseMap::kLower) {
    base::append_utf8(mapped, is_final_sigma(view, at, c.length) ? 0x3C2 : 0x3C3);
  } else {
    append_mapped(mapped, c.code_point, map);
  }
  out.append_marked(mapped, text.marks()[at]);
  return c.length;
}

}  // namespace

Str map_case(Heap& heap, const Str& text, CaseMap map) {
  StringBuilder out(heap);
  for (size_t at = 0; at < text.size;) at += append_case(out, text, at, map);
  return out.finish();
}

Str capitalize(Heap& heap, const Str& text) {
  StringBuilder out(heap);
  for (size_t at = 0; at < text.size;) {
    at += append_case(out, text, at, at == 0 ? CaseMap::kTitle : CaseMap::kLower);
  }
  return out.finish();
}

Str title(Heap& heap, const Str& text) {
  StringBuilder out(heap);
  bool in_word = false;
  for (size_t at = 0; at < text.size;) {
    const char32_t c = base::decode_utf8(text.view().substr(at)).code_point;
    at += append_case(out, text, at, in_word ? CaseMap::kLower : CaseMap::kTitle);
    in_word = is_cased(c);
  }
  return out.finish();
}

Str swap_case(Heap& heap, const Str& text) {
  StringBuilder out(heap);
  for (size_t at = 0; at < text.size;) {
    const char32_t c = base::decode_utf8(text.view().substr(at)).code_point;
    if (is_upper(c) || is_lower(c)) {
      at += append_case(out, text, at, is_upper(c) ? CaseMap::kLower : CaseMap::kUpper);
    } else {
      const size_t length = character_at(text.view(), at).size();
      out.append(text.sub(at, length));
      at += length;
    }
  }
  return out.finish();
}

bool has_case(Heap& heap, std::string_view text, bool upper) {
  heap.charge_work(text.size());
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Char c = base::decode_utf8(text.substr(at));
    if (is_title(c.code_point) || (upper ? is_lower(c.code_point) : is_upper(c.code_point))) {
      return false;
    }
    any = any || (upper ? is_upper(c.code_point) : is_lower(c.code_point));
    at += c.length;
  }
  return any;
}

Str html_escape(Heap& heap, const Str& text) {
  StringBuilder out(heap);
  const std::string_view view = text.view();
  size_t plain = 0;
  for (size_t at = 0; at < view.size(); ++at) {
    std::string_view escape;
    switch (view[at]) {
      case '&':
        escape = "&amp;";
        break;
      case '<':
        escape = "&lt;";
        break;
      case '>':
        escape = "&gt;";
        break;
      case '\'':
        escape = "&#39;";
        break;
      case '"':
        escape = "&#34;";
        break;
      default:
        continue;
    }
    out.append(text.sub(plain, at - plain));
    out.append_marked(escape, text.marks()[at]);
    plain = at + 1;
  }
  if (plain == 0) return text;
  out.append(text.sub(plain, view.size() - plain));
  return out.finish();
}

Str pad(Heap& heap, const Str& text, Int width, const Str& fill, char align) {
  const Int missing = width - static_cast<Int>(count_characters(heap, text.view()));
  if (missing <= 0) return text;
  heap.check_string_size(static_cast<uint64_t>(std::min<Int>(missing, Int{1} << 62)));
  Int left = align == '>' ? missing : 0;
  if (align == '^') left = missing / 2 + (missing & width & 1);
  StringBuilder out(heap);
  for (Int i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (Int i = left; i < missing; ++i) out.append(fill);
  return out.finish();
}

}  // namespace bulkhead::chat::jinja
