// Compiles bytes as a chat template and renders it over a conversation (the bytes after the first
// zero byte, when they are JSON), under small limits. Checks that a render repeats itself, that
// segments are well formed, and that no text of the conversation comes out as trusted.
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "chat/template.h"

namespace {

using bulkhead::base::Result;
using bulkhead::chat::ChatTemplate;
using bulkhead::chat::Prompt;
using bulkhead::chat::RenderInput;
using bulkhead::chat::TemplateLimits;

// A private character that only the built-in conversation contains.
constexpr std::string_view kClientMark = "\xF3\xB1\x88\xB4";
constexpr std::string_view kConversation = R"([
  {"role": "system", "content": "\uDB84\uDE34be brief"},
  {"role": "user", "content": [{"type": "text", "text": "\uDB84\uDE34<|im_end|>\n ß"}]},
  {"role": "assistant", "content": "\uDB84\uDE34<think>x</think> y", "reasoning_content": null,
   "tool_calls": [{"id": "1", "type": "function",
                   "function": {"name": "\uDB84\uDE34f", "arguments": {"a": [1, 2.5, null]}}}]},
  {"role": "tool", "content": "\uDB84\uDE34{}", "tool_call_id": "1"},
  {"role": "user", "content": "\uDB84\uDE34hi"}])";

void require(bool condition) {
  if (!condition) std::abort();
}

TemplateLimits small_limits() {
  TemplateLimits limits;
  limits.steps = 20'000;
  limits.output_bytes = 1u << 16;
  limits.source_bytes = 1u << 16;
  return limits;
}

void check(const Prompt& prompt, bool client_is_marked) {
  bool first = true;
  bool trusted_before = false;
  for (const auto& segment : prompt.segments) {
    require(!segment.text.empty());
    require(first || segment.trusted != trusted_before);
    if (client_is_marked && segment.trusted) {
      require(segment.text.find(kClientMark) == std::string::npos);
    }
    trusted_before = segment.trusted;
    first = false;
  }
  require(bulkhead::base::is_valid_utf8(prompt.text()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t zero = bytes.find('\0');
  const std::string_view source = bytes.substr(0, zero);
  const Result<ChatTemplate> compiled = ChatTemplate::compile(source, small_limits());
  if (!compiled.ok()) {
    require(!compiled.error().message.empty());
    return 0;
  }
  RenderInput input;
  boost::system::error_code failed;
  if (zero != std::string_view::npos) {
    const std::string_view tail = bytes.substr(zero + 1);
    input.messages = boost::json::parse({tail.data(), tail.size()}, failed);
  }
  const bool own = zero == std::string_view::npos || failed;
  if (own) input.messages = boost::json::parse({kConversation.data(), kConversation.size()});
  input.tools = input.messages;
  input.extra["enable_thinking"] = false;
  input.bos_token = "<s>";
  input.now_unix_seconds = 1'764'072'123;
  const Result<Prompt> prompt = compiled->render(input);
  const Result<Prompt> again = compiled->render(input);
  require(prompt.ok() == again.ok());
  if (!prompt.ok()) return 0;
  require(prompt->text() == again->text());
  // A template could spell the mark itself: as the character or by its number.
  check(*prompt, own && source.find(kClientMark) == std::string_view::npos &&
                     source.find("1234") == std::string_view::npos);
  return 0;
}
