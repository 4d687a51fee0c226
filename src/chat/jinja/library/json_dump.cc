#include "chat/jinja/library/json_dump.h"

#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/library/stable_order.h"

namespace bulkhead::chat::jinja {
namespace {

void append_unit(std::string& out, uint32_t unit) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(unit >> shift) & 15u];
}

// The escape of a character, or nothing when it stands for itself.
std::string escape_of(char32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  std::string out;
  const bool ascii_escape = ensure_ascii && c >= 0x7F;
  if (c >= 0x20 && (!ascii_escape || c == 0x7F)) return out;
  if (c < 0x10000) {
    append_unit(out, c);
  } else {
    append_unit(out, 0xD800 + ((c - 0x10000) >> 10));
    append_unit(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
  }
  return out;
}

void dump_string(StringBuilder& out, const Str& text, bool ensure_ascii) {
  const std::string_view view = text.view();
  out.append("\"");
  size_t plain = 0;
  for (size_t at = 0; at < view.size();) {
    const auto byte = static_cast<unsigned char>(view[at]);
    if (byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\') {
      ++at;
      continue;
    }
    const base::Utf8Char c = base::decode_utf8(view.substr(at));
    const std::string escape = escape_of(c.code_point, ensure_ascii);
    if (!escape.empty()) {
      out.append(text.sub(plain, at - plain));
      out.append_marked(escape, text.marks()[at]);
      plain = at + c.length;
    }
    at += c.length;
  }
  out.append(text.sub(plain, view.size() - plain));
  out.append("\"");
}

std::string float_json(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return float_repr(number);
}

std::string scalar_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "null";
    case Kind::kBool:
      return value.as_bool() ? "true" : "false";
    case Kind::kInt:
      return int_text(value.as_int());
    case Kind::kFloat:
      return float_json(value.as_double());
    default:
      return {};
  }
}

void new_line(StringBuilder& out, const JsonStyle& style, uint32_t depth) {
  if (!style.multi_line) return;
  out.append("\n");
  for (uint32_t i = 0; i < depth; ++i) out.append(style.indent);
}

void dump_array(Heap& heap, StringBuilder& out, const Value& items, const JsonStyle& style,
                uint32_t depth) {
  if (items.size() == 0) return out.append("[]");
  out.append("[");
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(style.item_separator);
    first = false;
    new_line(out, style, depth + 1);
    dump_json(heap, out, item, style, depth + 1);
  }
  new_line(out, style, depth);
  out.append("]");
}

void dump_key(StringBuilder& out, const Value& key, const JsonStyle& style) {
  if (key.is_string()) return dump_string(out, key.as_str(), style.ensure_ascii);
  const std::string text = scalar_text(key);
  if (text.empty()) {
    fail("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
  }
  out.append("\"" + text + "\"");
}

void dump_object(Heap& heap, StringBuilder& out, const DictObject& dict, const JsonStyle& style,
                 uint32_t depth) {
  if (dict.entries.empty()) return out.append("{}");
  const auto& entries = dict.entries;
  std::vector<size_t> order;
  if (style.sort_keys) {
    heap.charge_memory(entries.size() * 2 * sizeof(size_t));
    order = stable_order(entries.size(), [&](size_t a, size_t b) {
      return compare(heap, entries[a].first, entries[b].first) < 0;
    });
  }
  out.append("{");
  bool first = true;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[style.sort_keys ? order[i] : i];
    if (!first) out.append(style.item_separator);
    first = false;
    new_line(out, style, depth + 1);
    dump_key(out, key, style);
    out.append(style.key_separator);
    dump_json(heap, out, value, style, depth + 1);
  }
  new_line(out, style, depth);
  out.append("}");
}

}  // namespace

void dump_json(Heap& heap, StringBuilder& out, const Value& value, const JsonStyle& style,
               uint32_t depth) {
  if (depth > kMaxValueDepth) fail_limit("a value is nested too deeply for JSON");
  heap.charge_step();
  switch (value.kind()) {
    case Kind::kString:
      return dump_string(out, value.as_str(), style.ensure_ascii);
    case Kind::kList:
    case Kind::kTuple:
      return dump_array(heap, out, value, style, depth);
    case Kind::kDict:
      return dump_object(heap, out, *value.as_dict(), style, depth);
    default:
      break;
  }
  const std::string text = scalar_text(value);
  if (text.empty()) {
    fail("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
  }
  out.append(text);
}

}  // namespace bulkhead::chat::jinja
