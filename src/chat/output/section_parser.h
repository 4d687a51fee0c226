// Calls in a section of control tokens with their arguments as JSON: Kimi's and DeepSeek's way.
//
//     SECTION { CALL header ARGUMENTS json END } SECTION_END
//
// Threads: one thread at a time. Invariants: text after the section is dropped, another section's
// calls are not; a call outside of a section counts; a header that names no function is content.
#pragma once

#include <string>
#include <string_view>

#include "chat/output/tool_parser.h"

namespace bulkhead::chat {

// What stands between CALL and ARGUMENTS, and around the JSON.
enum class SectionStyle : uint8_t {
  kKimi,           // header functions.NAME:INDEX, which is the call's id
  kName,           // header NAME
  kFencedAndName,  // header "function"; then NAME, a line break and the JSON in a ``` block
};

class SectionParser final : public ToolParser {
 public:
  SectionParser(SectionStyle style, const ToolSchemas& schemas, CallWriter& writer)
      : style_(style), schemas_(schemas), writer_(writer) {}

  MarkerSet expected() const override;
  void text(std::string_view text) override;
  void marker(const MarkerHit& hit) override;
  void finish() override;

 private:
  enum class State : uint8_t { kOutside, kSection, kHeader, kName, kFence, kArguments };

  void between_calls(size_t marker, std::string_view spelled);
  void header(std::string_view text);
  void header_ended(size_t marker, std::string_view spelled);
  void name(std::string_view text);
  void fence(std::string_view text);
  void arguments(std::string_view text);
  bool start();
  void refuse();
  void end(bool truncated);
  void end_at(size_t marker, std::string_view spelled);

  const SectionStyle style_;
  const ToolSchemas& schemas_;
  CallWriter& writer_;
  State state_ = State::kOutside;
  bool after_section_ = false;
  std::string raw_;   // of a call that has not started, as written
  std::string held_;  // the header, name or fence so far
  bool fenced_ = false;
  std::string tail_;  // of the arguments: may be what comes after them
};

}  // namespace bulkhead::chat
