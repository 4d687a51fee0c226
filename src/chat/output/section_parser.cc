#include "chat/output/section_parser.h"

#include <algorithm>
#include <utility>

namespace bulkhead::chat {
namespace {

// Numbers of the markers, as tool_format.cc lists them.
enum Marker : size_t { kSectionBegin, kSectionEnd, kCallBegin, kArgumentBegin, kCallEnd };
constexpr MarkerSet bit(Marker marker) { return MarkerSet{1} << marker; }

constexpr size_t kFenceBytesMax = 32;
constexpr std::string_view kFence = "```";

// The name in functions.NAME:INDEX, of which prefix and index may be missing.
std::string_view name_in(std::string_view id, bool& numbered) {
  constexpr std::string_view kPrefix = "functions.";
  if (id.starts_with(kPrefix)) id.remove_prefix(kPrefix.size());
  const size_t colon = id.rfind(':');
  numbered = false;
  if (colon == std::string_view::npos || colon + 1 == id.size()) return id;
  const std::string_view digits = id.substr(colon + 1);
  numbered = std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return numbered ? id.substr(0, colon) : id;
}

}  // namespace

MarkerSet SectionParser::expected() const {
  constexpr MarkerSet kEnds = bit(kCallEnd) | bit(kCallBegin) | bit(kSectionEnd);
  switch (state_) {
    case State::kOutside:
      return bit(kSectionBegin) | bit(kCallBegin);
    case State::kSection:
      return bit(kSectionBegin) | bit(kCallBegin) | bit(kSectionEnd);
    case State::kHeader:
    case State::kName:
    case State::kFence:
      return kEnds | bit(kSectionBegin) | bit(kArgumentBegin);
    case State::kArguments:
      return kEnds;
  }
  return 0;
}

void SectionParser::text(std::string_view text) {
  switch (state_) {
    case State::kOutside:
      return after_section_ ? writer_.dropped(text.size()) : writer_.content(text);
    case State::kSection:
      return writer_.content(text);
    case State::kHeader:
      return header(text);
    case State::kName:
      return name(text);
    case State::kFence:
      return fence(text);
    case State::kArguments:
      return arguments(text);
  }
}

void SectionParser::marker(const MarkerHit& hit) {
  const size_t marker = hit.marker;
  const std::string_view spelled = hit.text;
  switch (state_) {
    case State::kOutside:
    case State::kSection:
      return between_calls(marker, spelled);
    case State::kHeader:
      return header_ended(marker, spelled);
    case State::kName:
      if (marker == kArgumentBegin) return name(spelled);
      if (!start()) {
        refuse();
        return between_calls(marker, spelled);
      }
      return end_at(marker, spelled);
    case State::kFence:
      if (marker == kArgumentBegin || marker == kSectionBegin) return fence(spelled);
      return end_at(marker, spelled);
    case State::kArguments:
      // What is spelled out inside of a JSON string is text of an argument.
      if (!hit.token && writer_.in_string()) return arguments(spelled);
      return end_at(marker, spelled);
  }
}

void SectionParser::finish() {
  switch (state_) {
    case State::kOutside:
    case State::kSection:
      return;
    case State::kHeader:
    case State::kName:
      return writer_.content(raw_);
    case State::kFence:
    case State::kArguments:
      return end(true);
  }
}

void SectionParser::between_calls(size_t marker, std::string_view spelled) {
  if (marker == kCallBegin) {
    raw_ = spelled;
    held_.clear();
    fenced_ = false;
    state_ = State::kHeader;
  } else if (marker == kCallEnd) {
    writer_.content(spelled);  // of a call that is none
  } else {
    writer_.dropped(spelled.size());
    after_section_ = marker == kSectionEnd;
    state_ = after_section_ ? State::kOutside : State::kSection;
  }
}

void SectionParser::header(std::string_view text) {
  raw_ += text;
  held_ += text;
  if (held_.size() > kHeaderBytesMax) refuse();
}

void SectionParser::header_ended(size_t marker, std::string_view spelled) {
  const bool has_arguments = marker == kArgumentBegin;
  if (has_arguments) raw_ += spelled;
  if (has_arguments && style_ == SectionStyle::kFencedAndName) {
    held_.clear();
    state_ = State::kName;
    return;
  }
  const bool started = style_ != SectionStyle::kFencedAndName && start();
  if (!started) refuse();
  if (has_arguments) return;
  return started ? end_at(marker, spelled) : between_calls(marker, spelled);
}

void SectionParser::name(std::string_view text) {
  const size_t line_end = text.find('\n');
  const std::string_view line = text.substr(0, line_end);
  raw_ += line;
  held_ += line;
  if (line_end == std::string_view::npos) {
    if (held_.size() > kHeaderBytesMax) refuse();
    return;
  }
  if (!start()) {
    refuse();
    return writer_.content(text.substr(line_end));
  }
  fence(text.substr(line_end));
}

// The way to the JSON of a fenced call: white space, then perhaps ```json and a line break.
void SectionParser::fence(std::string_view text) {
  if (held_.empty()) {
    const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    writer_.dropped(first);
    text.remove_prefix(first);
  }
  held_ += text;
  if (held_.size() < kFence.size() ? kFence.starts_with(held_) : held_.starts_with(kFence)) {
    const size_t line_end = held_.find('\n');
    if (line_end == std::string::npos && held_.size() <= kFenceBytesMax) return;
    fenced_ = line_end <= kFenceBytesMax;
    if (fenced_) {
      writer_.dropped(line_end + 1);
      held_.erase(0, line_end + 1);
    }
  }
  const std::string json = std::exchange(held_, {});
  state_ = State::kArguments;
  arguments(json);
}

void SectionParser::arguments(std::string_view text) {
  if (!writer_.any_arguments() && tail_.empty()) {
    const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    writer_.dropped(first);
    text.remove_prefix(first);
  }
  const size_t last = text.find_last_not_of(fenced_ ? " \t\r\n`" : " \t\r\n");
  if (last == std::string_view::npos) {
    tail_ += text;
    return;
  }
  tail_ += text.substr(0, last + 1);
  writer_.arguments(tail_, tail_.size());
  tail_ = text.substr(last + 1);
}

bool SectionParser::start() {
  const std::string_view id = trimmed(held_);
  bool numbered = false;
  const bool kimi = style_ == SectionStyle::kKimi;
  const std::string_view name = kimi ? name_in(id, numbered) : id;
  if (!is_function_name(name)) return false;
  if (kimi && !numbered && !schemas_.has(name)) return false;
  writer_.start(numbered ? id : std::string_view(), name, raw_.size());
  raw_.clear();
  held_.clear();
  tail_.clear();
  state_ = style_ == SectionStyle::kFencedAndName ? State::kFence : State::kArguments;
  return true;
}

// What was taken for a call is none.
void SectionParser::refuse() {
  writer_.content(raw_);
  raw_.clear();
  held_.clear();
  state_ = State::kSection;
}

void SectionParser::end(bool truncated) {
  if (state_ == State::kFence) {
    const std::string rest = held_;
    state_ = State::kArguments;
    arguments(rest);
  }
  const std::string_view rest = trimmed(tail_);
  if (kFence.starts_with(rest)) {
    writer_.dropped(tail_.size());
  } else {
    writer_.arguments(tail_, tail_.size());
  }
  if (!truncated && !writer_.any_arguments()) writer_.arguments("{}", 0);
  tail_.clear();
  writer_.end(0, truncated);
}

void SectionParser::end_at(size_t marker, std::string_view spelled) {
  end(false);
  state_ = State::kSection;
  if (marker == kCallEnd) return writer_.dropped(spelled.size());
  between_calls(marker, spelled);
}

}  // namespace bulkhead::chat
