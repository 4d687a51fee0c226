#include "chat/jinja/interpreter.h"

#include "chat/jinja/interpreter_nesting.h"

namespace bulkhead::chat::jinja {
namespace {

void set_in(Heap& heap, Scope& scope, NameId name, const Value& value) {
  for (auto& [id, held] : scope.values) {
    if (id == name) {
      held = value;
      return;
    }
  }
  heap.charge_memory(sizeof(std::pair<NameId, Value>));
  scope.values.emplace_back(name, value);
}

Scope* new_scope(Heap& heap, Scope* parent) {
  Scope* scope = heap.make<Scope>();
  scope->parent = parent;
  return scope;
}

}  // namespace

Interpreter::Interpreter(const TemplateAst& ast, Heap& heap, uint32_t max_depth,
                         int64_t now_unix_seconds)
    : ast_(ast),
      heap_(heap),
      max_depth_(max_depth),
      now_unix_seconds_(now_unix_seconds),
      globals_(ast.names.size()),
      root_(new_scope(heap, nullptr)),
      top_(heap) {
  for (const auto& [name, function] : global_functions()) {
    FunctionObject* object = heap_.make<FunctionObject>();
    object->name = name.data();
    object->function = function;
    set_variable(name, Value::object(Kind::kFunction, object));
  }
}

void Interpreter::set_variable(std::string_view name, const Value& value) {
  for (size_t id = 0; id < ast_.names.size(); ++id) {
    if (ast_.names[id] == name) globals_[id] = value;
  }
}

const StringBuilder& Interpreter::run() {
  out_ = &top_;
  exec_body(ast_.body, root_);
  return top_;
}

Value Interpreter::undefined(std::string_view complaint) {
  return Value::undefined(make_str(heap_, complaint, false));
}

Interpreter::Flow Interpreter::exec_body(const Body& body, Scope* scope) {
  const Nesting nesting(*this);
  for (const StmtPtr& statement : body) {
    const Flow flow = exec(*statement, scope);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::exec(const Stmt& statement, Scope* scope) {
  heap_.charge_step();
  line_ = statement.line;
  switch (statement.kind) {
    case Stmt::Kind::kText:
      out_->append(static_cast<const TextStmt&>(statement).text.as_str());
      return Flow::kNormal;
    case Stmt::Kind::kOutput:
      for (const ExprPtr& value : static_cast<const OutputStmt&>(statement).values) {
        output(eval(*value, scope));
      }
      return Flow::kNormal;
    case Stmt::Kind::kIf:
      return exec_if(static_cast<const IfStmt&>(statement), scope);
    case Stmt::Kind::kFor:
      return exec_for(static_cast<const ForStmt&>(statement), scope);
    case Stmt::Kind::kSet: {
      const auto& set = static_cast<const SetStmt&>(statement);
      assign(set.target, eval(*set.value, scope), scope);
      return Flow::kNormal;
    }
    case Stmt::Kind::kSetBlock:
      return exec_set_block(static_cast<const SetBlockStmt&>(statement), scope);
    case Stmt::Kind::kMacro: {
      const auto& macro = static_cast<const MacroStmt&>(statement);
      set_in(heap_, *scope, macro.name, make_macro(macro, scope));
      return Flow::kNormal;
    }
    case Stmt::Kind::kCallBlock:
      exec_call_block(static_cast<const CallBlockStmt&>(statement), scope);
      return Flow::kNormal;
    case Stmt::Kind::kFilterBlock:
      return exec_filter_block(static_cast<const FilterBlockStmt&>(statement), scope);
    case Stmt::Kind::kWith:
      return exec_with(static_cast<const WithStmt&>(statement), scope);
    case Stmt::Kind::kBlock:
    case Stmt::Kind::kGeneration: {
      const auto& block = static_cast<const ScopeStmt&>(statement);
      return exec_body(block.body, new_scope(heap_, block.sees_locals ? scope : root_));
    }
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

void Interpreter::output(const Value& value) {
  if (value.is_string()) {
    out_->append(value.as_str());
  } else if (!value.is_undefined()) {
    append_repr(heap_, *out_, value);
  }
}

Interpreter::Flow Interpreter::exec_if(const IfStmt& statement, Scope* scope) {
  for (const auto& [test, body] : statement.branches) {
    if (truthy(heap_, eval(*test, scope))) return exec_body(body, scope);
  }
  return exec_body(statement.otherwise, scope);
}

Interpreter::Flow Interpreter::exec_for(const ForStmt& statement, Scope* scope) {
  const Value iterable = eval(*statement.iterable, scope);
  return run_loop(statement, iterable, scope, 0);
}

Value Interpreter::filtered_items(const ForStmt& statement, const Value& items, Scope* scope) {
  Scope* test_scope = new_scope(heap_, scope);
  std::vector<Value> kept;
  for (const Value& item : items) {
    heap_.charge_step();
    if (test_scope->captured) test_scope = new_scope(heap_, scope);
    test_scope->values.clear();
    assign(statement.target, item, test_scope);
    if (truthy(heap_, eval(*statement.filter, test_scope))) kept.push_back(item);
  }
  return Value::list(make_list(heap_, std::move(kept)));
}

Interpreter::Flow Interpreter::run_loop(const ForStmt& statement, const Value& iterable,
                                        Scope* scope, uint32_t depth0) {
  Value items = to_list(heap_, iterable);
  if (statement.filter) items = filtered_items(statement, items, scope);
  LoopObject* loop = heap_.make<LoopObject>();
  loop->items = items;
  loop->depth0 = depth0;
  loop->statement = &statement;
  loop->scope = scope;
  // As in jinja2's generated code, else runs unless a turn reached the end of the body.
  bool completed_turn = false;
  Scope* turn = new_scope(heap_, scope);
  for (size_t i = 0; i < items.size(); ++i) {
    heap_.charge_step();
    if (turn->captured) turn = new_scope(heap_, scope);
    turn->values.clear();
    loop->index0 = i;
    set_in(heap_, *turn, kNameLoop, Value::object(Kind::kLoop, loop));
    assign(statement.target, items.begin()[i], turn);
    const Flow flow = exec_body(statement.body, turn);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNormal) completed_turn = true;
  }
  if (completed_turn || statement.otherwise.empty()) return Flow::kNormal;
  return exec_body(statement.otherwise, new_scope(heap_, scope));
}

Value Interpreter::capture(const Body& body, Scope* scope, Flow& flow) {
  StringBuilder text(heap_);
  StringBuilder* outer = std::exchange(out_, &text);
  flow = exec_body(body, new_scope(heap_, scope));
  out_ = outer;
  return Value::string(text.finish());
}

Interpreter::Flow Interpreter::exec_set_block(const SetBlockStmt& statement, Scope* scope) {
  Flow flow = Flow::kNormal;
  Value text = capture(statement.body, scope, flow);
  if (flow != Flow::kNormal) return flow;
  if (statement.filter) {
    const auto& chain = static_cast<const ChainExpr&>(*statement.filter);
    text = eval_chain(chain, text, scope, chain.links.size());
  }
  assign(statement.target, text, scope);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::exec_filter_block(const FilterBlockStmt& statement, Scope* scope) {
  Flow flow = Flow::kNormal;
  const Value text = capture(statement.body, scope, flow);
  if (flow != Flow::kNormal) return flow;
  const auto& chain = static_cast<const ChainExpr&>(*statement.filter);
  const Value filtered = eval_chain(chain, text, scope, chain.links.size());
  if (!filtered.is_string()) fail("a filter block must produce a string");
  output(filtered);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::exec_with(const WithStmt& statement, Scope* scope) {
  Scope* inner = new_scope(heap_, scope);
  for (const auto& [target, value] : statement.bindings) {
    assign(target, eval(*value, scope), inner);
  }
  return exec_body(statement.body, inner);
}

void Interpreter::exec_call_block(const CallBlockStmt& statement, Scope* scope) {
  const auto& chain = static_cast<const ChainExpr&>(*statement.call);
  const Value base = eval(*chain.base, scope);
  const Value callee = eval_chain(chain, base, scope, chain.links.size() - 1);
  Arguments arguments = eval_arguments(chain.links.back().arguments, scope);
  arguments.named.emplace_back(make_str(heap_, "caller", true), make_macro(statement.macro, scope));
  output(call(callee, arguments));
}

Value Interpreter::make_macro(const MacroStmt& statement, Scope* scope) {
  for (Scope* each = scope; each != nullptr && !each->captured; each = each->parent) {
    each->captured = true;
  }
  MacroObject* macro = heap_.make<MacroObject>();
  macro->statement = &statement;
  macro->closure = scope;
  return Value::object(Kind::kMacro, macro);
}

void Interpreter::assign(const Target& target, const Value& value, Scope* scope) {
  switch (target.kind) {
    case Target::Kind::kName:
      set_in(heap_, *scope, target.name, value);
      return;
    case Target::Kind::kNamespace: {
      const Value holder = eval_name(target.name, scope);
      if (!holder.is(Kind::kNamespace)) {
        fail("cannot assign attribute on non-namespace object");
      }
      dict_set(heap_, *holder.as_namespace()->attributes, target.attribute, value);
      return;
    }
    case Target::Kind::kTuple: {
      const Value items = to_list(heap_, value);
      if (items.size() != target.items.size()) {
        fail("expected " + std::to_string(target.items.size()) + " values to unpack, got " +
             std::to_string(items.size()));
      }
      for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items.begin()[i], scope);
      return;
    }
  }
}

}  // namespace bulkhead::chat::jinja
