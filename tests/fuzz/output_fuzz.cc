// Text that a model wrote through the parsers of reasoning and tool calls: nothing is lost, every
// call that begins ends, and the answer does not depend on where the text was cut.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "chat/output/output_parser.h"

namespace {

using namespace bulkhead::chat;

struct Answer {
  std::string content;
  std::string reasoning;
  std::string calls;
  size_t source_bytes = 0;
  int open_calls = 0;

  bool operator==(const Answer&) const = default;

  void take(const std::vector<OutputEvent>& events) {
    using Kind = OutputEvent::Kind;
    for (const OutputEvent& event : events) {
      source_bytes += event.source_bytes;
      if (event.kind == Kind::kContent) content += event.text;
      if (event.kind == Kind::kReasoning) reasoning += event.text;
      if (event.kind == Kind::kArguments) calls += event.text;
      if (event.kind == Kind::kCallStart) {
        ++open_calls;
        calls += "\n" + event.id + " " + event.text + " ";
      }
      if (event.kind == Kind::kCallEnd) --open_calls;
      BH_CHECK(open_calls == 0 || open_calls == 1, "calls do not overlap");
    }
  }
};

// Bytes 0 to 31 of the input stand for the format's markers, as tokens.
Answer parse(const OutputParserOptions& options, std::string_view input, size_t piece) {
  const std::vector<std::string> markers = output_markers(options.tools);
  OutputParser parser(options);
  Answer answer;
  size_t given = 0;
  std::string text;
  const auto flush = [&] {
    given += text.size();
    answer.take(parser.text(text));
    text.clear();
  };
  while (!input.empty()) {
    const auto byte = static_cast<unsigned char>(input.front());
    if (byte < markers.size() && byte != 9 && byte != 10 &&
        ((options.marker_tokens >> byte) & 1u) != 0) {
      flush();
      given += markers[byte].size();
      answer.take(parser.token(byte));
      input.remove_prefix(1);
      continue;
    }
    const size_t length = bulkhead::base::decode_utf8(input).length;
    text += input.substr(0, length);
    input.remove_prefix(length);
    if (text.size() >= piece) flush();
  }
  flush();
  answer.take(parser.finish());
  BH_CHECK(answer.source_bytes == given, "every byte is accounted for");
  BH_CHECK(answer.open_calls == 0, "every call ends");
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  OutputParserOptions options;
  options.tools = kToolFormatNames[data[0] % kToolFormatNames.size()].format;
  options.reasoning = kReasoningFormatNames[data[1] % kReasoningFormatNames.size()].format;
  options.start = static_cast<ThinkingStart>(data[2] % 3);
  options.calls = static_cast<CallPolicy>(data[2] / 4 % 3);
  if (data[2] >= 128) {
    options.marker_tokens = (MarkerSet{1} << output_markers(options.tools).size()) - 1;
  }
  const std::string input =
      bulkhead::base::to_valid_utf8({reinterpret_cast<const char*>(data) + 3, size - 3});
  const Answer whole = parse(options, input, input.size() + 1);
  BH_CHECK(parse(options, input, 1) == whole, "character by character");
  BH_CHECK(parse(options, input, 7) == whole, "in pieces");
  return 0;
}
