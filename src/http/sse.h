// Server-sent events: framing for the writer, an incremental parser for readers.
//
// Threads: plain values. Invariant: the parser accepts any split of the byte stream and ignores
// comment lines (WHATWG HTML, section 9.2.6); an event's data never grows beyond its limit (a
// longer one is dropped whole and counted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bulkhead::http {

// "data: <json>\n\n"; a line break in `json` starts a further data line, which readers join again.
std::string sse_event(std::string_view json);

class SseParser {
 public:
  explicit SseParser(size_t event_bytes_max = 8u << 20) : event_bytes_max_(event_bytes_max) {}
  // Data of every event that `bytes` completes, in order.
  std::vector<std::string> push(std::string_view bytes);
  // Events that were longer than the limit.
  uint64_t dropped() const { return dropped_; }

 private:
  // A data line, its field name and a byte order mark.
  size_t line_bytes_max() const { return event_bytes_max_ + 16; }
  void append_to_line(std::string_view text);
  void end_line(std::vector<std::string>& events);
  void take_field(std::string_view line);

  size_t event_bytes_max_;
  uint64_t dropped_ = 0;
  std::string line_;
  std::string data_;
  bool have_data_ = false;
  bool too_long_ = false;   // the event at hand is over the limit
  bool line_cut_ = false;   // the line at hand is over the limit
  bool first_line_ = true;  // a byte order mark may come
  bool skip_newline_ = false;
};

}  // namespace bulkhead::http
