#include "api/request/continuation.h"

namespace bulkhead::api {
namespace {

std::string_view without_end_space(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

bool end_inside_message(chat::Prompt& prompt, std::string_view content) {
  if (prompt.segments.empty()) return false;
  // Neighbours differ, so the message is in the last segment or in the one before.
  size_t last = prompt.segments.size() - 1;
  if (prompt.segments[last].trusted && last > 0) --last;
  const chat::PromptSegment& segment = prompt.segments[last];
  const std::string_view bare = without_end_space(content);
  if (segment.trusted || bare.empty()) return false;
  if (!segment.text.ends_with(content) && !segment.text.ends_with(bare)) return false;
  prompt.segments.resize(last + 1);
  return true;
}

}  // namespace bulkhead::api
