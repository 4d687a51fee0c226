#include "chat/output/output_parser.h"

#include <algorithm>

namespace bulkhead::chat {
namespace {

using Kind = OutputEvent::Kind;

// Places in output_markers().
enum Place : size_t { kThinkBeginPlace, kThinkEndPlace, kFirstToolPlace };
constexpr MarkerSet kThinkBeginBit = MarkerSet{1} << kThinkBeginPlace;
constexpr MarkerSet kThinkEndBit = MarkerSet{1} << kThinkEndPlace;

// The template writes line breaks around the reasoning, so they are none of it.
bool pads_reasoning(ReasoningFormat format) {
  return format == ReasoningFormat::kQwen3 || format == ReasoningFormat::kDeepSeekR1 ||
         format == ReasoningFormat::kDeepSeekV3;
}

// These models go from reasoning to calls without closing it, even where they spell the markers.
bool calls_end_reasoning(ReasoningFormat format) {
  return format == ReasoningFormat::kKimiK2 || format == ReasoningFormat::kGlm45;
}

std::string_view without_end_space(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

ThinkingStart thinking_start(const Prompt& prompt) {
  if (prompt.segments.empty() || !prompt.segments.back().trusted) return ThinkingStart::kUnknown;
  const std::string_view end = without_end_space(prompt.segments.back().text);
  if (end.ends_with(kThinkBegin)) return ThinkingStart::kOpen;
  return end.ends_with(kThinkEnd) ? ThinkingStart::kClosed : ThinkingStart::kUnknown;
}

ThinkingStart thinking_start(std::string_view content) {
  const size_t begin = content.rfind(kThinkBegin);
  if (begin == std::string_view::npos) return ThinkingStart::kClosed;
  return content.find(kThinkEnd, begin) == std::string_view::npos ? ThinkingStart::kOpen
                                                                  : ThinkingStart::kClosed;
}

std::vector<std::string> output_markers(ToolFormat tools) {
  std::vector<std::string> all = {std::string(kThinkBegin), std::string(kThinkEnd)};
  const auto markers = markers_of(tools);
  all.insert(all.end(), markers.begin(), markers.end());
  return all;
}

OutputParser::OutputParser(const OutputParserOptions& options)
    : reasoning_(options.reasoning),
      openers_(openers_of(options.tools) << kFirstToolPlace),
      schemas_(options.schemas ? options.schemas : std::make_shared<const ToolSchemas>()),
      writer_(options.calls, events_),
      stream_(output_markers(options.tools), options.marker_tokens),
      tools_(make_tool_parser(options.tools, *schemas_, writer_)) {
  if (reasoning_ == ReasoningFormat::kNone) return;
  const bool assumed =
      reasoning_ == ReasoningFormat::kDeepSeekR1 && options.start == ThinkingStart::kUnknown;
  phase_ = assumed || options.start == ThinkingStart::kOpen ? Phase::kThinking : Phase::kStart;
}

std::vector<OutputEvent> OutputParser::text(std::string_view text) {
  stream_.push(text);
  run();
  return events_.take();
}

std::vector<OutputEvent> OutputParser::token(size_t marker) {
  stream_.push_token(marker);
  run();
  return events_.take();
}

std::vector<OutputEvent> OutputParser::finish() {
  stream_.finish();
  run();
  if (phase_ == Phase::kStart) begin_answer();
  if (phase_ == Phase::kThinking) events_.append(Kind::kReasoning, {}, held_.size());
  tools_->finish();
  writer_.finish();
  return events_.take();
}

Expected OutputParser::expected() const {
  const MarkerSet tools = tools_->expected() << kFirstToolPlace;
  constexpr MarkerSet kThink = kThinkBeginBit | kThinkEndBit;
  switch (phase_) {
    case Phase::kStart:
      return {tools | kThink, tools | kThink};
    case Phase::kThinking: {
      const MarkerSet think = thought_ ? kThinkEndBit : kThink;
      return {openers_ | think, (calls_end_reasoning(reasoning_) ? openers_ : 0) | think};
    }
    case Phase::kAnswer:
      return {tools, tools};
  }
  return {};
}

void OutputParser::run() {
  while (const auto item = stream_.next(expected())) {
    switch (phase_) {
      case Phase::kStart:
        start_item(*item);
        break;
      case Phase::kThinking:
        thinking_item(*item);
        break;
      case Phase::kAnswer:
        answer_item(*item);
        break;
    }
  }
}

void OutputParser::start_item(const MarkupStream::Item& item) {
  const bool think = item.marker && *item.marker < kFirstToolPlace;
  if (think) {
    // An end without a beginning: the prompt has both.
    events_.append(Kind::kDropped, {}, held_.size() + item.text.size());
    held_.clear();
    phase_ = *item.marker == kThinkBeginPlace ? Phase::kThinking : Phase::kAnswer;
    trim_ = reasoning_ != ReasoningFormat::kKimiK2;
    return;
  }
  if (!item.marker && is_space_only(item.text)) {
    held_ += item.text;
    return;
  }
  begin_answer();
  answer_item(item);
}

// What was held back at the start is the answer's.
void OutputParser::begin_answer() {
  phase_ = Phase::kAnswer;
  const std::string held = std::exchange(held_, {});
  if (!held.empty()) answer_item({std::nullopt, held, false});
}

void OutputParser::thinking_item(const MarkupStream::Item& item) {
  if (!item.marker) return reasoning_text(item.text);
  if (*item.marker == kThinkBeginPlace) {  // the prompt opened it already
    return events_.append(Kind::kDropped, {}, item.text.size());
  }
  events_.append(Kind::kReasoning, {}, std::exchange(held_, {}).size());
  phase_ = Phase::kAnswer;
  trim_ = reasoning_ != ReasoningFormat::kKimiK2;
  if (*item.marker >= kFirstToolPlace) return answer_item(item);
  events_.append(Kind::kDropped, {}, item.text.size());
}

void OutputParser::reasoning_text(std::string_view text) {
  if (!pads_reasoning(reasoning_)) {
    thought_ = thought_ || !is_space_only(text);
    return events_.append(Kind::kReasoning, text, text.size());
  }
  if (!thought_) {
    const size_t first = std::min(text.find_first_not_of('\n'), text.size());
    events_.append(Kind::kReasoning, {}, first);
    text.remove_prefix(first);
  }
  thought_ = thought_ || !text.empty();
  const size_t last = text.find_last_not_of('\n');
  if (last == std::string_view::npos) {
    held_ += text;
    return;
  }
  events_.append(Kind::kReasoning, held_, held_.size());
  events_.append(Kind::kReasoning, text.substr(0, last + 1), last + 1);
  held_ = text.substr(last + 1);
}

void OutputParser::answer_item(const MarkupStream::Item& item) {
  if (item.marker) {
    trim_ = false;
    return tools_->marker({*item.marker - kFirstToolPlace, item.text, item.token});
  }
  std::string_view text = item.text;
  if (trim_) {
    const size_t first = std::min(text.find_first_not_of('\n'), text.size());
    events_.append(Kind::kDropped, {}, first);
    text.remove_prefix(first);
    trim_ = text.empty();
  }
  if (!text.empty()) tools_->text(text);
}

}  // namespace bulkhead::chat
