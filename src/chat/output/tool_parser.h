// The parsers of tool calls, one for each way that models write them.
//
// Threads: one thread at a time.
// Invariants: a parser takes any text; markup that is no call becomes content, as it was written;
// what it holds back is a header, a name or a value that is not complete, or white space.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "chat/output/call_writer.h"
#include "chat/output/markup_stream.h"
#include "chat/output/tool_format.h"
#include "chat/output/tool_schemas.h"

namespace bulkhead::chat {

// A header, a function's name or an argument's that is longer is none.
inline constexpr size_t kHeaderBytesMax = 1024;

struct MarkerHit {
  size_t marker = 0;
  std::string_view text;  // as it stands in the answer
  bool token = false;     // it came as a token, so it is more than text that looks like it
};

class ToolParser {
 public:
  virtual ~ToolParser() = default;

  // Which of the format's markers may come now. Text is only cut at these: where text can change
  // the state, they are all that may come in either, and one that may not is text.
  virtual MarkerSet expected() const = 0;
  virtual void text(std::string_view text) = 0;
  virtual void marker(const MarkerHit& hit) = 0;
  // The text has ended.
  virtual void finish() = 0;
};

// `writer` and `schemas` must outlive the parser. kNone: everything is content.
std::unique_ptr<ToolParser> make_tool_parser(ToolFormat format, const ToolSchemas& schemas,
                                             CallWriter& writer);

// Shared by the parsers.
std::string_view trimmed(std::string_view text);
bool is_space_only(std::string_view text);
// What clients could have called a function: no white space, quotes or angle brackets.
bool is_function_name(std::string_view name);

}  // namespace bulkhead::chat
