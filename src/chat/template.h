// Chat templates: the checkpoint's own Jinja template, run with limits.
//
// Threads: a ChatTemplate is immutable; any thread may render.
// Invariants: the output equals jinja2's in the environment Hugging Face transformers sets up
// (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes, raise_exception,
// strftime_now, {% generation %}); a render ends within its limits whatever the template and the
// messages are; every output character carries its provenance (see prompt.h).
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/prompt.h"

namespace bulkhead::chat {

struct TemplateLimits {
  uint64_t steps = 2'000'000;           // statements, expressions and loop turns in one render
  uint32_t depth = 64;                  // nesting of blocks, expressions, macro calls
  uint64_t output_bytes = 32ull << 20;  // rendered text, and any string built on the way
  uint64_t source_bytes = 1ull << 20;   // the template itself
};

// What a template sees. All of it is untrusted except `bos_token` and `eos_token` and the
// template's own text.
struct RenderInput {
  boost::json::value messages;  // array of message objects, as the client sent them
  boost::json::value tools;     // array of tool declarations, or null when absent
  boost::json::object extra;    // chat_template_kwargs: become top-level variables
  bool add_generation_prompt = true;
  std::string bos_token;  // spelled out; trusted; empty: undefined, as in transformers
  std::string eos_token;
  int64_t now_unix_seconds = 0;  // for strftime_now (UTC)
};

class ChatTemplate {
 public:
  // Parses once; an error names the line of the template and what is wrong.
  static base::Result<ChatTemplate> compile(std::string_view source, TemplateLimits limits = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Errors: kInvalidArgument when the template itself refuses the conversation (raise_exception:
  // the message is the template's), kResourceExhausted at a limit, kUnsupported otherwise.
  base::Result<Prompt> render(const RenderInput& input) const;

 private:
  struct Compiled;
  explicit ChatTemplate(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace bulkhead::chat
