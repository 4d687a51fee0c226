#include "chat/output/call_writer.h"

namespace bulkhead::chat {
namespace {

using Kind = OutputEvent::Kind;

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

void CallWriter::content(std::string_view text) {
  if (done_) return dropped(text.size());
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    space_ += text;
    return;
  }
  if (after_markup_) {
    drop_space();
    dropped(first);
    text.remove_prefix(first);
  }
  out_.append(Kind::kContent, space_, space_.size());
  after_markup_ = false;
  const size_t end = text.find_last_not_of(kSpace) + 1;
  out_.append(Kind::kContent, text.substr(0, end), end);
  space_ = text.substr(end);
}

void CallWriter::dropped(size_t source_bytes) {
  if (source_bytes == 0) return;
  drop_space();
  out_.append(Kind::kDropped, {}, source_bytes);
  after_markup_ = true;
}

void CallWriter::drop_space() {
  out_.append(Kind::kDropped, {}, space_.size());
  space_.clear();
}

void CallWriter::start(std::string_view id, std::string_view name, size_t source_bytes) {
  drop_space();
  in_call_ = true;
  any_arguments_ = false;
  arguments_ = JsonCursor();
  muted_ = policy_ == CallPolicy::kNone || done_;
  if (muted_) return dropped(source_bytes);
  OutputEvent event;
  event.kind = Kind::kCallStart;
  event.text = name;
  event.id = id;
  event.call = started_++;
  event.source_bytes = source_bytes;
  out_.push(std::move(event));
}

void CallWriter::arguments(std::string_view json, size_t source_bytes) {
  drop_space();
  for (const char c : json) arguments_.feed(c);
  any_arguments_ = any_arguments_ || !json.empty();
  if (muted_) return dropped(source_bytes);
  out_.append(Kind::kArguments, json, source_bytes, started_ - 1);
}

void CallWriter::end(size_t source_bytes, bool truncated) {
  drop_space();
  in_call_ = false;
  after_markup_ = true;
  if (muted_) return dropped(source_bytes);
  done_ = policy_ == CallPolicy::kFirstOnly;
  OutputEvent event;
  event.kind = Kind::kCallEnd;
  event.call = started_ - 1;
  event.source_bytes = source_bytes;
  const bool valid = arguments_.complete() && arguments_.is_object();
  event.outcome = valid       ? CallOutcome::kComplete
                  : truncated ? CallOutcome::kTruncated
                              : CallOutcome::kMalformed;
  out_.push(std::move(event));
}

void CallWriter::finish() {
  if (after_markup_) return drop_space();
  out_.append(Kind::kContent, space_, space_.size());
  space_.clear();
}

}  // namespace bulkhead::chat
