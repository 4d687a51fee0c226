#include "chat/output/tool_format.h"

namespace bulkhead::chat {
namespace {

// Numbered as section_parser.cc reads them.
constexpr std::string_view kKimiMarkers[] = {"<|tool_calls_section_begin|>",
                                             "<|tool_calls_section_end|>", "<|tool_call_begin|>",
                                             "<|tool_call_argument_begin|>", "<|tool_call_end|>"};
constexpr std::string_view kDeepSeekMarkers[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                                                 "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                                 "<｜tool▁call▁end｜>"};
// As glm_parser.cc.
constexpr std::string_view kGlmMarkers[] = {"<tool_call>", "</tool_call>", "<arg_key>",
                                            "</arg_key>",  "<arg_value>",  "</arg_value>"};
// As dsml_parser.cc.
constexpr std::string_view kDsmlMarkers[] = {
    "<｜DSML｜function_calls>", "</｜DSML｜function_calls>",  "<｜DSML｜invoke name=\"",
    "</｜DSML｜invoke>",        "<｜DSML｜parameter name=\"", "</｜DSML｜parameter>"};
// As hermes_parser.cc.
constexpr std::string_view kHermesMarkers[] = {"<tool_call>", "</tool_call>"};

}  // namespace

std::string_view to_string(ToolFormat format) {
  for (const ToolFormatName& one : kToolFormatNames) {
    if (one.format == format) return one.name;
  }
  return "none";
}

std::string_view to_string(ReasoningFormat format) {
  for (const ReasoningFormatName& one : kReasoningFormatNames) {
    if (one.format == format) return one.name;
  }
  return "none";
}

std::span<const std::string_view> markers_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kKimiK2:
      return kKimiMarkers;
    case ToolFormat::kDeepSeekV3:
    case ToolFormat::kDeepSeekV31:
      return kDeepSeekMarkers;
    case ToolFormat::kGlm45:
    case ToolFormat::kGlm47:
      return kGlmMarkers;
    case ToolFormat::kDeepSeekV32:
      return kDsmlMarkers;
    case ToolFormat::kHermes:
      return kHermesMarkers;
  }
  return {};
}

uint32_t openers_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return 0;
    case ToolFormat::kKimiK2:
    case ToolFormat::kDeepSeekV3:
    case ToolFormat::kDeepSeekV31:
    case ToolFormat::kDeepSeekV32:
      return 0b101;  // a section or, where the model forgot to open one, a call
    case ToolFormat::kGlm45:
    case ToolFormat::kGlm47:
    case ToolFormat::kHermes:
      return 0b1;
  }
  return 0;
}

}  // namespace bulkhead::chat
