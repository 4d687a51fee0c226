// Server-sent events: framing for the writer, an incremental parser for readers.
//
// Threads: plain values. Invariant: the parser accepts any split of the byte stream and ignores
// comment lines (WHATWG HTML, section 9.2.6); an event's data never grows beyond its limit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bulkhead::http {

// "data: <json>\n\n"; `json` must not contain a line break.
std::string sse_event(std::string_view json);

class SseParser {
 public:
  explicit SseParser(size_t event_bytes_max = 8u << 20) : event_bytes_max_(event_bytes_max) {}
  // Data of every event that `bytes` completes, in order.
  std::vector<std::string> push(std::string_view bytes);

 private:
  size_t event_bytes_max_;
  std::string line_;
  std::string data_;
  bool have_data_ = false;
  bool skip_newline_ = false;
};

}  // namespace bulkhead::http
