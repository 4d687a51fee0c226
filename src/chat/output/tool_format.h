// The ways in which models write tool calls and reasoning down, under SGLang's names.
//
// Threads: constants.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace bulkhead::chat {

enum class ToolFormat : uint8_t {
  kNone,
  kKimiK2,       // <|tool_calls_section_begin|>, ids functions.name:index
  kGlm45,        // <tool_call>name, then lines of <arg_key>, <arg_value>
  kGlm47,        // the same without line breaks
  kDeepSeekV3,   // function<｜tool▁sep｜>name, fenced JSON
  kDeepSeekV31,  // name<｜tool▁sep｜>JSON
  kDeepSeekV32,  // <｜DSML｜invoke name="...">
  kHermes,       // <tool_call>{"name": ..., "arguments": ...}</tool_call>, Qwen's too
};

enum class ReasoningFormat : uint8_t {
  kNone,
  kKimiK2,
  kGlm45,
  kDeepSeekR1,  // reasons from its first token unless the prompt says otherwise
  kDeepSeekV3,
  kQwen3,
};

// A name may stand for the format of another: Qwen 2.5 writes what Hermes writes.
struct ToolFormatName {
  std::string_view name;
  ToolFormat format;
};
inline constexpr std::array<ToolFormatName, 9> kToolFormatNames = {{
    {"kimi_k2", ToolFormat::kKimiK2},
    {"glm45", ToolFormat::kGlm45},
    {"glm47", ToolFormat::kGlm47},
    {"deepseekv3", ToolFormat::kDeepSeekV3},
    {"deepseekv31", ToolFormat::kDeepSeekV31},
    {"deepseekv32", ToolFormat::kDeepSeekV32},
    {"qwen25", ToolFormat::kHermes},
    {"hermes", ToolFormat::kHermes},
    {"none", ToolFormat::kNone},
}};
struct ReasoningFormatName {
  std::string_view name;
  ReasoningFormat format;
};
inline constexpr std::array<ReasoningFormatName, 6> kReasoningFormatNames = {{
    {"kimi_k2", ReasoningFormat::kKimiK2},
    {"glm45", ReasoningFormat::kGlm45},
    {"deepseek-r1", ReasoningFormat::kDeepSeekR1},
    {"deepseek-v3", ReasoningFormat::kDeepSeekV3},
    {"qwen3", ReasoningFormat::kQwen3},
    {"none", ReasoningFormat::kNone},
}};
// The first name of a format.
std::string_view to_string(ToolFormat format);
std::string_view to_string(ReasoningFormat format);

// The format's markers, in the order that its parser numbers them.
std::span<const std::string_view> markers_of(ToolFormat format);
// Those that begin a call or a section of calls: bit i is marker i.
uint32_t openers_of(ToolFormat format);

inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";

}  // namespace bulkhead::chat
