// GLM's calls: a name, then pairs of <arg_key> and <arg_value> without types.
//
//     <tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value>...</tool_call>
//
// Threads: one thread at a time. Invariants: line breaks between the parts (GLM-4.5) and none
// (GLM-4.7 and later) are the same; values get the types of the tool's schema; a call whose name
// is none is content.
#pragma once

#include <string>
#include <string_view>

#include "chat/output/argument_object.h"
#include "chat/output/tool_parser.h"

namespace bulkhead::chat {

class GlmParser final : public ToolParser {
 public:
  GlmParser(const ToolSchemas& schemas, CallWriter& writer)
      : schemas_(schemas), writer_(writer), object_(writer) {}

  MarkerSet expected() const override;
  void text(std::string_view text) override;
  void marker(const MarkerHit& hit) override;
  void finish() override;

 private:
  enum class State : uint8_t { kOutside, kName, kArguments, kKey, kAfterKey, kValue };

  void begin_call(std::string_view spelled);
  void name_ended(size_t marker, std::string_view spelled);
  void between_arguments(size_t marker, std::string_view spelled);
  void begin_value();
  void end_call(std::string_view spelled);

  const ToolSchemas& schemas_;
  CallWriter& writer_;
  ArgumentObject object_;
  State state_ = State::kOutside;
  std::string name_;
  std::string key_;
  std::string raw_;  // of a call that has not started, or of a key, as written
};

}  // namespace bulkhead::chat
