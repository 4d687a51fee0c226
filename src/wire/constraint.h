// What an answer must look like, token by token: the specification that a request gives, what it
// compiles to, and how far one sequence has come in it.
//
// Threads: specifications are plain values; a Constraint is immutable and shared by any thread; a
// ConstraintState belongs to one sequence; each port says its own rule.
// Invariants: a ConstraintState is a function of its Constraint and of the tokens it accepted, so
// it can be rebuilt from the tokens of a sequence; two specifications with equal keys mean the
// same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/types.h"

namespace bulkhead::wire {

// How a tool call writes its arguments down.
enum class ArgumentStyle {
  kJson,      // {"city": "Oslo"}
  kGlmXml,    // <arg_key>city</arg_key><arg_value>Oslo</arg_value>
  kQwenXml,   // <parameter=city>Oslo</parameter>
  kDeepSeek,  // <｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>
};

// One callable tool as the model has to spell its call: `begin`, arguments by `schema`, `end`.
// Literals name control tokens by their spelling; such a part is that token and nothing else.
struct ToolGrammar {
  std::string begin;  // for instance: <|tool_call_begin|>functions.weather:
  // Not empty: a decimal number comes between `begin` and this.
  std::string after_number;  // for instance: <|tool_call_argument_begin|>
  std::string schema;        // JSON schema of the arguments; empty: any object
  ArgumentStyle style = ArgumentStyle::kJson;
  std::string end;  // for instance: <|tool_call_end|>
};

// section_begin call (separator call)* section_end
struct ToolCallsGrammar {
  std::string section_begin;
  std::vector<ToolGrammar> tools;  // at least one
  std::string separator;           // between two calls
  std::string section_end;
  bool required = true;      // false: an answer may also do without any call (needs text_before)
  bool parallel = true;      // false: one call only
  bool text_before = false;  // any text may come before section_begin, which must not be empty
};

// What the whole answer is: an object, a value of a schema, tool calls; where several are given,
// one of them.
struct ConstraintSpec {
  bool json_object = false;
  std::optional<std::string> json_schema;  // the schema's text: an object or a boolean
  std::optional<ToolCallsGrammar> tool_calls;
  // Not empty: everything is allowed up to and with this text (the end of the model's reasoning);
  // the answer begins after it.
  std::string free_until;
  // Who asks. What one scope had compiled, no other finds: how long it takes would tell that
  // somebody asked for the same.
  std::array<uint8_t, 32> scope{};
};

// How far one sequence has come. Step thread, or whoever owns the sequence.
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;
  // Tokens accepted so far.
  virtual size_t accepted() const = 0;
  // Takes the next token; false when the constraint does not allow it, and then nothing more may
  // be asked of this state.
  virtual bool accept(TokenId token) = 0;
  // Bit i of word i/32: token i may come next. `mask` has mask_words() words; ids that are no
  // token get 0. Says nothing of stop ids that are control tokens: those go by can_stop().
  virtual void fill_mask(std::span<uint32_t> mask) = 0;
  // What was accepted is complete.
  virtual bool can_stop() const = 0;
};

class Constraint {
 public:
  virtual ~Constraint() = default;
  virtual std::unique_ptr<ConstraintState> start() const = 0;
  // What it holds in memory, roughly.
  virtual size_t bytes() const = 0;
};

constexpr size_t mask_words(size_t vocabulary_size) { return (vocabulary_size + 31) / 32; }

// Compiles specifications, aside from every thread that serves.
class ConstraintCompiler {
 public:
  using Done = std::function<void(base::Result<std::shared_ptr<const Constraint>>)>;
  virtual ~ConstraintCompiler() = default;
  // Any thread; never blocks for long. `done` is called once, on another thread or before this
  // returns. Errors: kInvalidArgument names what in the specification is wrong, not supported or
  // too big (`field`: the place in the schema); kResourceExhausted: too many are waiting.
  virtual void compile(ConstraintSpec spec, Done done) = 0;
};

}  // namespace bulkhead::wire
