#include "chat/output/format_choice.h"

#include <algorithm>
#include <span>

namespace bulkhead::chat {
namespace {

// The first rule whose words the template all has, and `without` not, decides.
template <typename Format>
struct Rule {
  Format format;
  std::string_view with;
  std::string_view with_too;  // empty: nothing more
  std::string_view without;   // likewise
};

constexpr std::string_view kKimiSection = "<|tool_calls_section_begin|>";
constexpr std::string_view kDeepSeekSection = "<｜tool▁calls▁begin｜>";

constexpr Rule<ToolFormat> kToolRules[] = {
    {ToolFormat::kKimiK2, kKimiSection, {}, {}},
    {ToolFormat::kDeepSeekV32, "｜DSML｜", "function_calls", {}},
    {ToolFormat::kDeepSeekV3, kDeepSeekSection, "```json", {}},
    {ToolFormat::kDeepSeekV31, kDeepSeekSection, {}, {}},
    {ToolFormat::kGlm45, "<arg_key>", "<tool_call>{function-name}\n", {}},
    {ToolFormat::kGlm47, "<arg_key>", {}, {}},
    {ToolFormat::kHermes, "<tool_call>", "arguments", "<function="},
};

constexpr Rule<ReasoningFormat> kReasoningRules[] = {
    {ReasoningFormat::kKimiK2, "<think>", "<|im_middle|>", {}},
    {ReasoningFormat::kGlm45, "<think>", "<|observation|>", {}},
    {ReasoningFormat::kDeepSeekV3, "<think>", "<｜Assistant｜>", "<｜Assistant｜><think>\\n"},
    {ReasoningFormat::kDeepSeekR1, "<think>", "<｜Assistant｜>", {}},
    {ReasoningFormat::kDeepSeekR1, "</think>", "<｜Assistant｜>", {}},
    {ReasoningFormat::kQwen3, "<think>", "</think>", {}},
};

template <typename Format>
const Rule<Format>* find_rule(std::span<const Rule<Format>> rules, std::string_view source) {
  const auto has = [&](std::string_view word) {
    return source.find(word) != std::string_view::npos;
  };
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule<Format>& rule) {
    return has(rule.with) && has(rule.with_too) && (rule.without.empty() || !has(rule.without));
  });
  return found == rules.end() ? nullptr : &*found;
}

std::string reason_of(std::string_view with, std::string_view with_too) {
  std::string reason = "the chat template has ";
  reason += with;
  if (!with_too.empty()) {
    reason += " and ";
    reason += with_too.substr(0, with_too.find('\n'));
  }
  return reason;
}

}  // namespace

FormatChoice choose_formats(std::string_view chat_template,
                            const std::function<bool(std::string_view)>& has_token) {
  FormatChoice out;
  if (const auto* rule = find_rule<ToolFormat>(kToolRules, chat_template)) {
    out.tools = rule->format;
    out.tools_reason = reason_of(rule->with, rule->with_too);
  } else if (has_token(kKimiSection)) {
    out.tools = ToolFormat::kKimiK2;
    out.tools_reason = "the tokenizer has " + std::string(kKimiSection);
  } else {
    out.tools_reason = "the chat template has no markup of tool calls that is known here";
  }
  if (const auto* rule = find_rule<ReasoningFormat>(kReasoningRules, chat_template)) {
    out.reasoning = rule->format;
    out.reasoning_reason = reason_of(rule->with, rule->with_too);
  } else {
    out.reasoning_reason = "the chat template has no <think>";
  }
  return out;
}

}  // namespace bulkhead::chat
