// DeepSeek V3.2's calls: elements with attributes, spelled out in text.
//
//     <｜DSML｜function_calls>
//     <｜DSML｜invoke name="NAME">
//     <｜DSML｜parameter name="K" string="true|false">V</｜DSML｜parameter>
//     </｜DSML｜invoke>
//     </｜DSML｜function_calls>
//
// Threads: one thread at a time. Invariants: a value is text where its element says so and JSON
// elsewhere; text after the section is dropped; an element that is not written so is content.
#pragma once

#include <string>
#include <string_view>

#include "chat/output/argument_object.h"
#include "chat/output/tool_parser.h"

namespace bulkhead::chat {

class DsmlParser final : public ToolParser {
 public:
  explicit DsmlParser(CallWriter& writer) : writer_(writer), object_(writer) {}

  MarkerSet expected() const override;
  void text(std::string_view text) override;
  void marker(const MarkerHit& hit) override;
  void finish() override;

 private:
  enum class State : uint8_t {
    kOutside,
    kSection,
    kInvoke,  // inside <invoke name="...
    kArguments,
    kParameter,  // inside <parameter name="...
    kValue,
  };

  void attributes(std::string_view text);
  void refuse_element();
  bool open_call();
  bool open_value();
  void begin_element(State state, std::string_view spelled);
  void end_call(std::string_view spelled);

  CallWriter& writer_;
  ArgumentObject object_;
  State state_ = State::kOutside;
  bool after_section_ = false;
  std::string raw_;   // of an element that is not complete, as written
  std::string held_;  // its attributes
};

}  // namespace bulkhead::chat
