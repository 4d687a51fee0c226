// Runs a parsed template against a set of variables.
//
// Threads: one interpreter per render; the tree is shared and read-only.
// Invariants: recursion is bounded by max_depth calls and a multiple of it in nested evaluations;
// every statement, expression and loop turn is charged to the heap's budget; names resolve by scope
// (loops, macros and blocks open one, if does not), then in the variables, then in the globals.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/syntax/ast.h"
#include "chat/jinja/value.h"

namespace bulkhead::chat::jinja {

struct Scope final : Object {
  Scope* parent = nullptr;
  std::vector<std::pair<NameId, Value>> values;
  bool captured = false;  // a macro keeps it: a loop may not reuse it for its next turn
};

struct MacroObject final : Object {
  const MacroStmt* statement = nullptr;
  Scope* closure = nullptr;
};

struct LoopObject final : Object {
  Value items;
  size_t index0 = 0;
  uint32_t depth0 = 0;
  const ForStmt* statement = nullptr;
  Scope* scope = nullptr;  // where the loop stands
  bool has_changed_value = false;
  std::vector<Value> changed_value;
};

class Interpreter {
 public:
  Interpreter(const TemplateAst& ast, Heap& heap, uint32_t max_depth, int64_t now_unix_seconds);

  // Variables hide globals of the same name.
  void set_variable(std::string_view name, const Value& value);
  // The text and its marks are valid until the next call.
  const StringBuilder& run();

  Heap& heap() { return heap_; }
  int64_t now_unix_seconds() const { return now_unix_seconds_; }
  uint32_t line() const { return line_; }

  // For filters, tests and functions.
  Value call(const Value& callee, const Arguments& arguments);
  Value get_attribute(const Value& object, const Value& name);
  Value get_item(const Value& object, const Value& key);
  Value call_filter(const Value& name, const Value& input, const Arguments& arguments);
  bool call_test(const Value& name, const Value& input, const Arguments& arguments);
  Value undefined(std::string_view complaint);

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };

  class Nesting;

  // Statements (interpreter.cc).
  Flow exec_body(const Body& body, Scope* scope);
  Flow exec(const Stmt& statement, Scope* scope);
  Flow exec_if(const IfStmt& statement, Scope* scope);
  Flow exec_for(const ForStmt& statement, Scope* scope);
  Flow run_loop(const ForStmt& statement, const Value& iterable, Scope* scope, uint32_t depth0);
  Value filtered_items(const ForStmt& statement, const Value& items, Scope* scope);
  Flow exec_set_block(const SetBlockStmt& statement, Scope* scope);
  Flow exec_filter_block(const FilterBlockStmt& statement, Scope* scope);
  Flow exec_with(const WithStmt& statement, Scope* scope);
  void exec_call_block(const CallBlockStmt& statement, Scope* scope);
  void assign(const Target& target, const Value& value, Scope* scope);
  void output(const Value& value);
  Value make_macro(const MacroStmt& statement, Scope* scope);
  // The text `body` produces, in a scope of its own below `scope`.
  Value capture(const Body& body, Scope* scope, Flow& flow);

  // Calls (interpreter_calls.cc).
  Value call_macro(const MacroObject& macro, const Arguments& arguments);
  void bind_macro_arguments(const MacroObject& macro, const Arguments& arguments, Scope* scope);
  Value call_loop(const LoopObject& loop, const Arguments& arguments);
  Value loop_attribute(LoopObject& loop, std::string_view name, bool& found);
  bool special_attribute(const Value& object, std::string_view name, Value& out);

  // Expressions (evaluate.cc).
  Value eval(const Expr& expr, Scope* scope);
  Value eval_name(NameId name, Scope* scope);
  Value eval_sequence(const SequenceExpr& expr, Scope* scope);
  Value eval_dict(const DictExpr& expr, Scope* scope);
  Value eval_chain(const ChainExpr& expr, Value value, Scope* scope, size_t link_count);
  Value apply_link(const Link& link, const Value& value, Scope* scope);
  Value eval_slice(const Link& link, const Value& value, Scope* scope);
  Arguments eval_arguments(const CallArguments& arguments, Scope* scope);
  Value eval_arithmetic(const ArithmeticExpr& expr, Scope* scope);
  Value eval_concat(const ConcatExpr& expr, Scope* scope);
  Value eval_compare(const CompareExpr& expr, Scope* scope);
  Value eval_logic(const LogicExpr& expr, Scope* scope);
  Value eval_conditional(const ConditionalExpr& expr, Scope* scope);

  const TemplateAst& ast_;
  Heap& heap_;
  const uint32_t max_depth_;
  const int64_t now_unix_seconds_;
  std::vector<Value> globals_;  // by NameId; undefined where there is none
  Scope* root_;
  StringBuilder* out_ = nullptr;
  StringBuilder top_;
  uint32_t nesting_ = 0;
  uint32_t calls_ = 0;
  uint32_t line_ = 0;
};

// The functions every template sees: range, namespace, dict, raise_exception, strftime_now, ...
const std::vector<std::pair<std::string_view, NativeFunction>>& global_functions();

}  // namespace bulkhead::chat::jinja
