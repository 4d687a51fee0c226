#include "chat/output/glm_parser.h"

namespace bulkhead::chat {
namespace {

// Numbers of the markers, as tool_format.cc lists them.
enum Marker : size_t { kCallBegin, kCallEnd, kKeyBegin, kKeyEnd, kValueBegin, kValueEnd };
constexpr MarkerSet bit(Marker marker) { return MarkerSet{1} << marker; }

}  // namespace

MarkerSet GlmParser::expected() const {
  switch (state_) {
    case State::kOutside:
      return bit(kCallBegin);
    case State::kName:
    case State::kArguments:
      return bit(kCallBegin) | bit(kCallEnd) | bit(kKeyBegin);
    case State::kKey:
      return bit(kKeyEnd) | bit(kValueBegin) | bit(kCallBegin) | bit(kCallEnd) | bit(kKeyBegin);
    case State::kAfterKey:
      return bit(kValueBegin) | bit(kCallBegin) | bit(kCallEnd) | bit(kKeyBegin);
    case State::kValue:
      // A value whose end is missing ends with its call.
      return bit(kValueEnd) | bit(kCallEnd);
  }
  return 0;
}

void GlmParser::text(std::string_view text) {
  switch (state_) {
    case State::kOutside:
      return writer_.content(text);
    case State::kName:
      raw_ += text;
      name_ += text;
      if (name_.size() <= kHeaderBytesMax) return;
      writer_.content(raw_);
      state_ = State::kOutside;
      return;
    case State::kArguments:
      return writer_.content(text);
    case State::kKey:
      raw_ += text;
      key_ += text;
      if (key_.size() <= kHeaderBytesMax) return;
      writer_.content(raw_);
      state_ = State::kArguments;
      return;
    case State::kAfterKey:
      raw_ += text;
      if (is_space_only(text)) return;
      writer_.content(raw_);
      state_ = State::kArguments;
      return;
    case State::kValue:
      return object_.text(text);
  }
}

void GlmParser::marker(const MarkerHit& hit) {
  const size_t marker = hit.marker;
  const std::string_view spelled = hit.text;
  switch (state_) {
    case State::kOutside:
      return begin_call(spelled);
    case State::kName:
      return name_ended(marker, spelled);
    case State::kArguments:
      return between_arguments(marker, spelled);
    case State::kKey:
    case State::kAfterKey:
      if (marker == kKeyEnd || marker == kValueBegin) {
        raw_ += spelled;
        if (marker == kValueBegin) return begin_value();
        state_ = State::kAfterKey;
        return;
      }
      writer_.content(raw_);  // a key without a value
      return between_arguments(marker, spelled);
    case State::kValue:
      object_.end(marker == kValueEnd ? spelled.size() : 0);
      state_ = State::kArguments;
      if (marker == kCallEnd) end_call(spelled);
      return;
  }
}

void GlmParser::finish() {
  switch (state_) {
    case State::kOutside:
      return;
    case State::kName:
      return writer_.content(raw_);
    case State::kKey:
    case State::kAfterKey:
      writer_.content(raw_);
      break;
    case State::kValue:
      object_.end(0, true);
      break;
    case State::kArguments:
      break;
  }
  writer_.end(0, true);
}

void GlmParser::begin_call(std::string_view spelled) {
  raw_ = spelled;
  name_.clear();
  state_ = State::kName;
}

void GlmParser::name_ended(size_t marker, std::string_view spelled) {
  const std::string name(trimmed(name_));
  if (marker == kCallBegin || !is_function_name(name)) {
    writer_.content(raw_);
    state_ = State::kOutside;
    return marker == kCallBegin ? begin_call(spelled) : writer_.content(spelled);
  }
  name_ = name;
  writer_.start({}, name_, raw_.size());
  object_.open();
  between_arguments(marker, spelled);
}

void GlmParser::between_arguments(size_t marker, std::string_view spelled) {
  state_ = State::kArguments;
  if (marker == kKeyBegin) {
    raw_ = spelled;
    key_.clear();
    state_ = State::kKey;
    return;
  }
  if (marker == kCallEnd) return end_call(spelled);
  end_call({});  // the next call begins and this one's end is missing
  begin_call(spelled);
}

void GlmParser::begin_value() {
  key_ = trimmed(key_);
  object_.begin(key_, schemas_.types_of(name_, key_), raw_.size());
  state_ = State::kValue;
}

void GlmParser::end_call(std::string_view spelled) {
  object_.close(0);
  writer_.end(spelled.size());
  state_ = State::kOutside;
}

}  // namespace bulkhead::chat
