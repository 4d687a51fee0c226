// What a model's generated text says, piece by piece: content, reasoning, tool calls.
//
// Threads: plain values.
// Invariants: the events of an answer account for its text byte by byte and in order: the
// `source_bytes` of all events add up to the text that was taken; content is its source, unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bulkhead::chat {

// How a call ended.
enum class CallOutcome : uint8_t {
  kComplete,   // its arguments are a JSON object
  kMalformed,  // closed, but its arguments are none
  kTruncated,  // the text ended inside of them
};

struct OutputEvent {
  enum class Kind : uint8_t {
    kContent,
    kReasoning,  // the text may lack white space of its source
    kCallStart,
    kArguments,  // a piece of the arguments' JSON
    kCallEnd,
    kDropped,  // markup, or what stands where the format has no text
  };

  Kind kind = Kind::kContent;
  std::string text;  // of content, reasoning, arguments; the function's name for kCallStart
  std::string id;    // kCallStart: the call's id as the model wrote it; empty: it writes none
  int32_t call = 0;  // number of the call in this answer, from 0
  CallOutcome outcome = CallOutcome::kComplete;  // kCallEnd
  size_t source_bytes = 0;                       // of the generated text
};

// A list of events in which neighbours of one kind are one event.
class OutputEvents {
 public:
  // Text of content, reasoning or arguments, or a dropped stretch.
  void append(OutputEvent::Kind kind, std::string_view text, size_t source_bytes,
              int32_t call = 0) {
    if (text.empty() && source_bytes == 0) return;
    if (events_.empty() || events_.back().kind != kind || events_.back().call != call) {
      events_.emplace_back();
      events_.back().kind = kind;
      events_.back().call = call;
    }
    events_.back().text += text;
    events_.back().source_bytes += source_bytes;
  }
  void push(OutputEvent event) { events_.push_back(std::move(event)); }

  std::vector<OutputEvent> take() { return std::exchange(events_, {}); }

 private:
  std::vector<OutputEvent> events_;
};

}  // namespace bulkhead::chat
