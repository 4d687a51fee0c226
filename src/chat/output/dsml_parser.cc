#include "chat/output/dsml_parser.h"

namespace bulkhead::chat {
namespace {

// Numbers of the markers, as tool_format.cc lists them.
enum Marker : size_t {
  kSectionBegin,
  kSectionEnd,
  kInvokeBegin,
  kInvokeEnd,
  kParameterBegin,
  kParameterEnd
};
constexpr MarkerSet bit(Marker marker) { return MarkerSet{1} << marker; }
constexpr MarkerSet kAll = bit(kSectionBegin) | bit(kSectionEnd) | bit(kInvokeBegin) |
                           bit(kInvokeEnd) | bit(kParameterBegin) | bit(kParameterEnd);

}  // namespace

MarkerSet DsmlParser::expected() const {
  switch (state_) {
    case State::kOutside:
      return bit(kSectionBegin) | bit(kInvokeBegin);
    case State::kSection:
      return bit(kInvokeBegin) | bit(kSectionEnd);
    case State::kArguments:
      return bit(kParameterBegin) | bit(kInvokeEnd) | bit(kInvokeBegin) | bit(kSectionEnd);
    case State::kInvoke:
    case State::kParameter:
      return kAll;  // so that text ends before them
    case State::kValue:
      return bit(kParameterEnd) | bit(kInvokeEnd);
  }
  return 0;
}

void DsmlParser::text(std::string_view text) {
  switch (state_) {
    case State::kOutside:
      return after_section_ ? writer_.dropped(text.size()) : writer_.content(text);
    case State::kSection:
    case State::kArguments:
      return writer_.content(text);
    case State::kInvoke:
    case State::kParameter:
      return attributes(text);
    case State::kValue:
      return object_.text(text);
  }
}

void DsmlParser::marker(const MarkerHit& hit) {
  const size_t marker = hit.marker;
  const std::string_view spelled = hit.text;
  if (state_ == State::kInvoke || state_ == State::kParameter) refuse_element();
  if (state_ == State::kValue) {
    object_.end(marker == kParameterEnd ? spelled.size() : 0);
    state_ = State::kArguments;
    if (marker == kParameterEnd) return;
  }
  if (state_ == State::kArguments) {
    if (marker == kParameterBegin) return begin_element(State::kParameter, spelled);
    if (marker == kInvokeEnd) return end_call(spelled);
    if (marker == kParameterEnd) return writer_.content(spelled);
    end_call({});  // the end of the call is missing
  }
  if (marker == kInvokeBegin) return begin_element(State::kInvoke, spelled);
  if (marker != kSectionBegin && marker != kSectionEnd) return writer_.content(spelled);
  writer_.dropped(spelled.size());
  after_section_ = marker == kSectionEnd;
  state_ = after_section_ ? State::kOutside : State::kSection;
}

void DsmlParser::finish() {
  if (state_ == State::kInvoke || state_ == State::kParameter) writer_.content(raw_);
  if (state_ == State::kValue) object_.end(0, true);
  if (writer_.in_call()) writer_.end(0, true);
}

void DsmlParser::begin_element(State state, std::string_view spelled) {
  raw_ = spelled;
  held_.clear();
  state_ = state;
}

// Up to the element's '>', which no name holds.
void DsmlParser::attributes(std::string_view text) {
  const size_t end = text.find('>');
  const std::string_view part = text.substr(0, end);
  held_ += part;
  raw_ += part;
  const bool call = state_ == State::kInvoke;
  if (end != std::string_view::npos) {
    raw_ += '>';
    const bool short_enough = held_.size() <= kHeaderBytesMax;
    if (short_enough && (call ? open_call() : open_value())) {
      return this->text(text.substr(end + 1));
    }
  } else if (held_.size() <= kHeaderBytesMax) {
    return;
  }
  refuse_element();
  if (end != std::string_view::npos) this->text(text.substr(end + 1));
}

// What was taken for an element is none.
void DsmlParser::refuse_element() {
  writer_.content(raw_);
  state_ = state_ == State::kInvoke ? State::kSection : State::kArguments;
}

bool DsmlParser::open_call() {
  if (!held_.ends_with('"')) return false;
  held_.pop_back();
  if (!is_function_name(held_)) return false;
  writer_.start({}, held_, raw_.size());
  object_.open();
  state_ = State::kArguments;
  return true;
}

// K" string="true
bool DsmlParser::open_value() {
  const size_t quote = held_.find('"');
  if (quote == std::string::npos) return false;
  const std::string_view rest = trimmed(std::string_view(held_).substr(quote + 1));
  const bool is_text = rest == "string=\"true\"";
  if (!is_text && !rest.empty() && rest != "string=\"false\"") return false;
  object_.begin(std::string_view(held_).substr(0, quote),
                is_text ? static_cast<JsonTypes>(JsonType::kString) : JsonTypes{0}, raw_.size());
  state_ = State::kValue;
  return true;
}

void DsmlParser::end_call(std::string_view spelled) {
  object_.close(0);
  writer_.end(spelled.size());
  state_ = State::kSection;
}

}  // namespace bulkhead::chat
