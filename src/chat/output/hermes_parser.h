// Calls as one JSON object between two markers: Hermes' way and Qwen's.
//
//     <tool_call>
//     {"name": "NAME", "arguments": {...}}
//     </tool_call>
//
// Threads: one thread at a time. Invariants: the arguments leave as they were written, as soon as
// the name is known; `parameters` is another name for them; what is no object with a name is
// content.
#pragma once

#include <string>
#include <string_view>

#include "chat/output/json_cursor.h"
#include "chat/output/tool_parser.h"

namespace bulkhead::chat {

class HermesParser final : public ToolParser {
 public:
  explicit HermesParser(CallWriter& writer) : writer_(writer) {}

  MarkerSet expected() const override;
  void text(std::string_view text) override;
  void marker(const MarkerHit& hit) override;
  void finish() override;

 private:
  enum class State : uint8_t {
    kOutside,
    kCall,     // inside the object
    kRefused,  // inside what is no call
    kBroken,   // the object became invalid after the call had started
  };
  // The member of the object whose value is under way.
  enum class Member : uint8_t { kNone, kName, kArguments, kOther };

  void begin_call(std::string_view spelled);
  void character(char c);
  void key_ended();
  void value_character(char c);
  void value_ended();
  void start();
  void write_arguments(std::string_view value);
  void broke(char c);
  void broken(std::string_view text);
  bool end_call(size_t source_bytes, bool truncated);

  CallWriter& writer_;
  State state_ = State::kOutside;
  JsonCursor cursor_;
  Member member_ = Member::kNone;
  std::string key_;    // of a member, with its quotes
  std::string value_;  // of the member under way, unless it is streamed
  char first_ = 0;     // of the value; 0: it has not begun
  bool streamed_ = false;
  std::string name_;
  std::string arguments_;  // that came before the name
  bool started_ = false;
  std::string raw_;     // of a call that has not started, as written
  size_t pending_ = 0;  // bytes of a started call that no event accounts for yet
};

}  // namespace bulkhead::chat
