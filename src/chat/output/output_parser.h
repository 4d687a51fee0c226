// A model's generated text, taken apart as it comes: reasoning, content, tool calls.
//
// Threads: one parser per generation, one thread at a time.
// Invariants: total: any text is taken, and nothing of it is lost (see output_event.h); the events
// joined do not depend on how the text was cut; memory is bounded by the longest argument that has
// to be whole before its JSON is known, time is linear.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output/call_writer.h"
#include "chat/output/markup_stream.h"
#include "chat/output/output_event.h"
#include "chat/output/tool_format.h"
#include "chat/output/tool_parser.h"
#include "chat/output/tool_schemas.h"
#include "chat/prompt.h"

namespace bulkhead::chat {

// What the prompt says of the answer's beginning.
enum class ThinkingStart : uint8_t {
  kUnknown,
  kOpen,    // the prompt opened the model's reasoning
  kClosed,  // and closed it too
};
ThinkingStart thinking_start(const Prompt& prompt);
// For a prompt that ends inside a message with this content.
ThinkingStart thinking_start(std::string_view content);

struct OutputParserOptions {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  CallPolicy calls = CallPolicy::kAll;
  ThinkingStart start = ThinkingStart::kUnknown;
  std::shared_ptr<const ToolSchemas> schemas;  // null: none
  // Bit i: the tokenizer has output_markers()[i] as one token, so that it counts as that alone.
  MarkerSet marker_tokens = 0;
};

// Every marker that a parser of `tools` may look for; token() goes by the places in this list.
std::vector<std::string> output_markers(ToolFormat tools);

class OutputParser {
 public:
  explicit OutputParser(const OutputParserOptions& options);
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  // Whole characters, as a detokenizer gives them.
  std::vector<OutputEvent> text(std::string_view text);
  // A marker that came as a token.
  std::vector<OutputEvent> token(size_t marker);
  // The end of the text. Call once.
  std::vector<OutputEvent> finish();

  // Nothing that comes now is wanted: the answer may have one call and has it.
  bool done() const { return writer_.done(); }

 private:
  enum class Phase : uint8_t {
    kStart,  // white space so far: reasoning may begin
    kThinking,
    kAnswer,
  };

  void run();
  Expected expected() const;
  void start_item(const MarkupStream::Item& item);
  void thinking_item(const MarkupStream::Item& item);
  void answer_item(const MarkupStream::Item& item);
  void reasoning_text(std::string_view text);
  void begin_answer();

  const ReasoningFormat reasoning_;
  const MarkerSet openers_;
  const std::shared_ptr<const ToolSchemas> schemas_;
  OutputEvents events_;
  CallWriter writer_;
  MarkupStream stream_;
  std::unique_ptr<ToolParser> tools_;
  Phase phase_ = Phase::kAnswer;
  std::string held_;      // white space at the start, or line breaks at the end of the reasoning
  bool thought_ = false;  // the reasoning has more than white space
  bool trim_ = false;     // the answer's next line breaks only part it from the reasoning
};

}  // namespace bulkhead::chat
