#include "http/sse.h"

#include <algorithm>
#include <utility>

namespace bulkhead::http {

std::string sse_event(std::string_view json) {
  std::string out;
  out.reserve(json.size() + 8);
  for (;;) {
    const size_t line_end = json.find_first_of("\r\n");
    out += "data: ";
    out += json.substr(0, line_end);
    out += '\n';
    if (line_end == std::string_view::npos) break;
    json.remove_prefix(line_end + (json.substr(line_end).starts_with("\r\n") ? 2 : 1));
  }
  out += '\n';
  return out;
}

std::vector<std::string> SseParser::push(std::string_view bytes) {
  std::vector<std::string> events;
  while (!bytes.empty()) {
    if (std::exchange(skip_newline_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t line_end = bytes.find_first_of("\r\n");
    append_to_line(bytes.substr(0, line_end));
    if (line_end == std::string_view::npos) break;
    skip_newline_ = bytes[line_end] == '\r';
    bytes.remove_prefix(line_end + 1);
    end_line(events);
  }
  return events;
}

void SseParser::append_to_line(std::string_view text) {
  const size_t room = line_bytes_max() - std::min(line_.size(), line_bytes_max());
  line_ += text.substr(0, room);
  if (text.size() > room) line_cut_ = true;
}

void SseParser::end_line(std::vector<std::string>& events) {
  std::string_view line = line_;
  if (std::exchange(first_line_, false) && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  if (line.empty() && !line_cut_) {
    if (too_long_) {
      ++dropped_;
    } else if (have_data_) {
      data_.pop_back();  // the line break after the last data line is not part of the event
      events.push_back(std::move(data_));
    }
    data_.clear();
    have_data_ = false;
    too_long_ = false;
  } else {
    take_field(line);
  }
  line_.clear();
  line_cut_ = false;
}

void SseParser::take_field(std::string_view line) {
  const size_t colon = line.find(':');
  if (line.substr(0, colon) != "data")
    return;  // comments and the fields this reader has no use for
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (line_cut_ || data_.size() + value.size() > event_bytes_max_) {
    too_long_ = true;
    data_.clear();
    return;
  }
  if (too_long_) return;
  data_ += value;
  data_ += '\n';
  have_data_ = true;
}

}  // namespace bulkhead::http
