#include "chat/template.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "chat/jinja/from_json.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/syntax/parser.h"

namespace bulkhead::chat {
namespace {

using jinja::Heap;
using jinja::HeapLimits;
using jinja::Interpreter;
using jinja::RenderError;
using jinja::Value;

// The engine's own failures name the line; what a template says through raise_exception is passed
// on word for word.
base::Error to_error(RenderError error, uint32_t line) {
  if (error.line == 0) error.line = line;
  const std::string where = "chat template, line " + std::to_string(error.line);
  if (error.code == base::ErrorCode::kInvalidArgument) {
    return base::Error{error.code, std::move(error.message), where};
  }
  return base::Error{error.code, where + ": " + error.message, where};
}

// The largest recursion a stack of 8 MiB carries with room to spare, sanitizers included.
constexpr uint32_t kMaxDepth = 96;

Prompt to_prompt(const jinja::StringBuilder& rendered) {
  Prompt prompt;
  const std::string_view text = rendered.view();
  const std::string_view marks = rendered.marks();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(marks.find_first_not_of(marks[at], at), text.size());
    prompt.segments.push_back(
        PromptSegment{std::string(text.substr(at, end - at)), marks[at] == jinja::kTrustedMark});
    at = end;
  }
  return prompt;
}

// Names the caller gives outside of `extra`; they may not come from there too.
constexpr std::string_view kReservedNames[] = {"messages", "tools", "add_generation_prompt"};

void set_variables(Interpreter& interpreter, const RenderInput& input) {
  Heap& heap = interpreter.heap();
  interpreter.set_variable("documents", Value::none());
  for (const auto& [name, token] :
       {std::pair<std::string_view, const std::string&>{"bos_token", input.bos_token},
        std::pair<std::string_view, const std::string&>{"eos_token", input.eos_token}}) {
    if (token.empty()) continue;
    interpreter.set_variable(name, jinja::make_string(heap, base::to_valid_utf8(token), true));
  }
  for (const auto& member : input.extra) {
    const std::string_view name(member.key().data(), member.key().size());
    interpreter.set_variable(name, jinja::from_json(heap, member.value()));
  }
  interpreter.set_variable("messages", jinja::from_json(heap, input.messages));
  interpreter.set_variable("tools", jinja::from_json(heap, input.tools));
  interpreter.set_variable("add_generation_prompt", Value::boolean(input.add_generation_prompt));
}

}  // namespace

struct ChatTemplate::Compiled {
  explicit Compiled(const TemplateLimits& given)
      : limits(given), constants(HeapLimits{given.steps, given.output_bytes}) {}

  TemplateLimits limits;
  Heap constants;
  jinja::TemplateAst ast;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

base::Result<ChatTemplate> ChatTemplate::compile(std::string_view source, TemplateLimits limits) {
  if (source.size() > limits.source_bytes) {
    return base::Error{base::ErrorCode::kResourceExhausted,
                       "the chat template has " + std::to_string(source.size()) +
                           " bytes, more than the limit of " + std::to_string(limits.source_bytes),
                       {}};
  }
  if (!base::is_valid_utf8(source)) return base::corrupt("the chat template is not valid UTF-8");
  limits.depth = std::min(limits.depth, kMaxDepth);
  auto compiled = std::make_unique<Compiled>(limits);
  try {
    compiled->ast = jinja::parse_template(source, limits.depth, compiled->constants);
  } catch (RenderError& error) {
    return to_error(std::move(error), 1);
  }
  return ChatTemplate(std::move(compiled));
}

base::Result<Prompt> ChatTemplate::render(const RenderInput& input) const {
  for (const std::string_view name : kReservedNames) {
    if (!input.extra.contains(name)) continue;
    return base::invalid_argument(
        "chat_template_kwargs." + std::string(name),
        "'" + std::string(name) + "' cannot be set as a template variable");
  }
  Heap heap(HeapLimits{compiled_->limits.steps, compiled_->limits.output_bytes});
  uint32_t line = 1;
  try {
    Interpreter interpreter(compiled_->ast, heap, compiled_->limits.depth, input.now_unix_seconds);
    try {
      set_variables(interpreter, input);
      return to_prompt(interpreter.run());
    } catch (RenderError&) {
      line = interpreter.line();
      throw;
    }
  } catch (RenderError& error) {
    return to_error(std::move(error), line);
  }
}

}  // namespace bulkhead::chat
