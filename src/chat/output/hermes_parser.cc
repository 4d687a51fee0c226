#include "chat/output/hermes_parser.h"

#include <boost/json/parse.hpp>
#include <utility>

namespace bulkhead::chat {
namespace {

// Numbers of the markers, as tool_format.cc lists them.
enum Marker : size_t { kCallBegin, kCallEnd };
constexpr MarkerSet kBegin = MarkerSet{1} << kCallBegin;
constexpr MarkerSet kBoth = kBegin | MarkerSet{1} << kCallEnd;

// The text of a JSON string; nothing where it is none.
std::string string_in(std::string_view json) {
  boost::json::error_code error;
  const boost::json::value value = boost::json::parse({json.data(), json.size()}, error);
  if (error || !value.is_string()) return {};
  return {value.get_string().data(), value.get_string().size()};
}

bool is_number_begin(char c) { return c == '-' || (c >= '0' && c <= '9'); }

}  // namespace

MarkerSet HermesParser::expected() const {
  switch (state_) {
    case State::kOutside:
      return kBegin;
    case State::kCall:
    case State::kRefused:
    case State::kBroken:
      return kBoth;
  }
  return 0;
}

void HermesParser::text(std::string_view text) {
  while (!text.empty() && state_ == State::kCall) {
    character(text.front());
    text.remove_prefix(1);
  }
  if (state_ == State::kBroken) return broken(text);
  if (state_ != State::kCall) writer_.content(text);
}

void HermesParser::marker(const MarkerHit& hit) {
  const std::string_view spelled = hit.text;
  // What is spelled out inside of a JSON string is text of an argument.
  if (state_ == State::kCall && !hit.token && cursor_.in_string()) return text(spelled);
  const bool closes = hit.marker == kCallEnd;
  const bool was_call = state_ == State::kCall || state_ == State::kBroken;
  const bool ended = was_call && end_call(closes ? spelled.size() : 0, false);
  state_ = State::kOutside;
  if (!closes) return begin_call(spelled);
  if (!ended) writer_.content(spelled);
}

void HermesParser::finish() {
  if (state_ == State::kCall || state_ == State::kBroken) end_call(0, true);
}

void HermesParser::begin_call(std::string_view spelled) {
  state_ = State::kCall;
  cursor_ = JsonCursor();
  member_ = Member::kNone;
  key_.clear();
  name_.clear();
  arguments_.clear();
  started_ = false;
  streamed_ = false;
  raw_ = spelled;
  pending_ = 0;
}

void HermesParser::character(char c) {
  if (started_) {
    ++pending_;
  } else {
    raw_ += c;
  }
  const bool was_in_key = cursor_.in_key();
  const bool root = cursor_.depth() == 0 && !cursor_.complete();
  if (!cursor_.feed(c) || (root && c != '{' && !is_space_only({&c, 1}))) return broke(c);
  if (cursor_.depth() == 1 && (cursor_.in_key() || was_in_key)) {
    if (!was_in_key) key_.clear();
    key_ += c;
    if (!cursor_.in_key()) key_ended();
    return;
  }
  if (member_ != Member::kNone) value_character(c);
}

void HermesParser::key_ended() {
  const std::string key = string_in(key_);
  const bool arguments = key == "arguments" || key == "parameters";
  member_ = Member::kOther;
  if (key == "name" && name_.empty()) member_ = Member::kName;
  if (arguments && !started_ && arguments_.empty()) member_ = Member::kArguments;
  value_.clear();
  first_ = 0;
  streamed_ = false;
}

void HermesParser::value_character(char c) {
  if (first_ == 0) {
    if (cursor_.expects_value() && cursor_.depth() == 1) return;  // the colon, white space
    first_ = c;
    // A string holds the JSON as text, and null stands for none.
    streamed_ = member_ == Member::kArguments && !name_.empty() && c != '"' && c != 'n';
    if (streamed_) start();
  }
  const bool over = is_number_begin(first_) ? !cursor_.in_number()
                                            : cursor_.after_value() && cursor_.depth() == 1;
  const bool included = !over || !is_number_begin(first_);
  if (included && streamed_) {
    writer_.arguments({&c, 1}, pending_);
    pending_ = 0;
  } else if (included) {
    value_ += c;
  }
  if (over) value_ended();
}

void HermesParser::value_ended() {
  if (member_ == Member::kName) {
    name_ = string_in(value_);
    if (!is_function_name(name_)) name_.clear();
  }
  if (member_ == Member::kArguments && !streamed_) {
    arguments_ = value_ == "null" ? "{}" : value_;
    if (value_.starts_with('"')) arguments_ = string_in(value_);
  }
  member_ = Member::kNone;
  streamed_ = false;
  if (started_ || name_.empty() || arguments_.empty()) return;
  start();
  writer_.arguments(arguments_, 0);
}

void HermesParser::start() {
  writer_.start({}, name_, raw_.size());
  raw_.clear();
  started_ = true;
}

// `c` cannot follow in the JSON.
void HermesParser::broke(char c) {
  if (!started_) {
    state_ = State::kRefused;
    writer_.content(raw_);
    return raw_.clear();
  }
  state_ = State::kBroken;
  --pending_;
  broken({&c, 1});
}

// Broken arguments are passed on as they are; what follows whole ones is none of them.
void HermesParser::broken(std::string_view text) {
  if (streamed_) return writer_.arguments(text, std::exchange(pending_, 0) + text.size());
  writer_.dropped(std::exchange(pending_, 0));
  writer_.content(text);
}

// False: there was no call, and its text is content.
bool HermesParser::end_call(size_t source_bytes, bool truncated) {
  if (!started_ && !name_.empty() && cursor_.complete()) {
    start();
    writer_.arguments("{}", 0);
  }
  if (!started_) {
    writer_.content(raw_);
    raw_.clear();
    return false;
  }
  writer_.end(pending_ + source_bytes, truncated);
  return true;
}

}  // namespace bulkhead::chat
