// Expressions.
#include "chat/jinja/interpreter.h"
#include "chat/jinja/interpreter_nesting.h"
#include "chat/jinja/operators.h"

namespace bulkhead::chat::jinja {

Value Interpreter::eval(const Expr& expr, Scope* scope) {
  const Nesting nesting(*this);
  line_ = expr.line;
  switch (expr.kind) {
    case Expr::Kind::kConst:
      return static_cast<const ConstExpr&>(expr).value;
    case Expr::Kind::kName:
      return eval_name(static_cast<const NameExpr&>(expr).name, scope);
    case Expr::Kind::kSequence:
      return eval_sequence(static_cast<const SequenceExpr&>(expr), scope);
    case Expr::Kind::kDict:
      return eval_dict(static_cast<const DictExpr&>(expr), scope);
    case Expr::Kind::kChain: {
      const auto& chain = static_cast<const ChainExpr&>(expr);
      return eval_chain(chain, eval(*chain.base, scope), scope, chain.links.size());
    }
    case Expr::Kind::kArithmetic:
      return eval_arithmetic(static_cast<const ArithmeticExpr&>(expr), scope);
    case Expr::Kind::kConcat:
      return eval_concat(static_cast<const ConcatExpr&>(expr), scope);
    case Expr::Kind::kCompare:
      return eval_compare(static_cast<const CompareExpr&>(expr), scope);
    case Expr::Kind::kLogic:
      return eval_logic(static_cast<const LogicExpr&>(expr), scope);
    case Expr::Kind::kNot:
      return Value::boolean(
          !truthy(heap_, eval(*static_cast<const NotExpr&>(expr).operand, scope)));
    case Expr::Kind::kSign: {
      const auto& sign = static_cast<const SignExpr&>(expr);
      return signed_value(eval(*sign.operand, scope), sign.negative);
    }
    case Expr::Kind::kConditional:
      return eval_conditional(static_cast<const ConditionalExpr&>(expr), scope);
  }
  return Value();
}

Value Interpreter::eval_name(NameId name, Scope* scope) {
  for (const Scope* each = scope; each != nullptr; each = each->parent) {
    for (const auto& [id, value] : each->values) {
      if (id == name) return value;
    }
  }
  const Value& global = globals_[name];
  if (!global.is_undefined()) return global;
  return undefined("'" + ast_.names[name] + "' is undefined");
}

Value Interpreter::eval_sequence(const SequenceExpr& expr, Scope* scope) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(eval(*item, scope));
  ListObject* list = make_list(heap_, std::move(items));
  return expr.is_tuple ? Value::tuple(list) : Value::list(list);
}

Value Interpreter::eval_dict(const DictExpr& expr, Scope* scope) {
  DictObject* dict = heap_.make<DictObject>();
  for (const auto& [key, value] : expr.entries) {
    const Value name = eval(*key, scope);
    dict_set(heap_, *dict, name, eval(*value, scope));
  }
  return Value::dict(dict);
}

Value Interpreter::eval_chain(const ChainExpr& expr, Value value, Scope* scope, size_t link_count) {
  for (size_t i = 0; i < link_count; ++i) {
    heap_.charge_step();
    value = apply_link(expr.links[i], value, scope);
  }
  return value;
}

Value Interpreter::apply_link(const Link& link, const Value& value, Scope* scope) {
  line_ = link.line;
  switch (link.kind) {
    case Link::Kind::kAttribute:
      return get_attribute(value, link.name);
    case Link::Kind::kItem:
      return get_item(value, eval(*link.item, scope));
    case Link::Kind::kSlice:
      return eval_slice(link, value, scope);
    case Link::Kind::kCall:
      return call(value, eval_arguments(link.arguments, scope));
    case Link::Kind::kFilter:
      if (link.filter == nullptr) {
        fail("No filter named '" + std::string(link.name.view()) + "'.");
      }
      return link.filter->function(*this, value, eval_arguments(link.arguments, scope));
    case Link::Kind::kTest:
      if (link.test == nullptr) fail("No test named '" + std::string(link.name.view()) + "'.");
      return Value::boolean(
          link.test->function(*this, value, eval_arguments(link.arguments, scope)) != link.negated);
  }
  return Value();
}

Value Interpreter::eval_slice(const Link& link, const Value& value, Scope* scope) {
  const auto bound = [&](const ExprPtr& expr) { return expr ? eval(*expr, scope) : Value::none(); };
  const Value start = bound(link.item);
  const Value stop = bound(link.stop);
  const Value step = bound(link.step);
  if (value.is_undefined()) fail(std::string(value.view()));
  return slice(heap_, value, SliceBounds{start, stop, step});
}

Arguments Interpreter::eval_arguments(const CallArguments& arguments, Scope* scope) {
  Arguments out;
  out.positional.reserve(arguments.positional.size());
  for (const ExprPtr& value : arguments.positional) out.positional.push_back(eval(*value, scope));
  if (arguments.spread_positional) {
    const Value more = to_list(heap_, eval(*arguments.spread_positional, scope));
    heap_.charge_memory(more.size() * sizeof(Value));
    out.positional.insert(out.positional.end(), more.begin(), more.end());
  }
  for (const auto& [name, value] : arguments.named) {
    out.named.emplace_back(name.as_str(), eval(*value, scope));
  }
  if (!arguments.spread_named) return out;
  const Value more = eval(*arguments.spread_named, scope);
  if (!more.is(Kind::kDict)) fail("argument after ** must be a mapping");
  heap_.charge_memory(more.as_dict()->entries.size() * 2 * sizeof(Value));
  for (const auto& [name, value] : more.as_dict()->entries) {
    if (!name.is_string()) fail("keywords must be strings");
    for (const auto& [given, ignored] : arguments.named) {
      if (given.view() == name.view()) fail("got multiple values for a keyword argument");
    }
    out.named.emplace_back(name.as_str(), value);
  }
  return out;
}

Value Interpreter::eval_arithmetic(const ArithmeticExpr& expr, Scope* scope) {
  Value value = eval(*expr.first, scope);
  for (const auto& [op, operand] : expr.rest) {
    heap_.charge_step();
    value = arithmetic(heap_, op, value, eval(*operand, scope));
  }
  return value;
}

Value Interpreter::eval_concat(const ConcatExpr& expr, Scope* scope) {
  std::vector<Value> parts;
  parts.reserve(expr.parts.size());
  for (const ExprPtr& part : expr.parts) parts.push_back(eval(*part, scope));
  StringBuilder text(heap_);
  for (const Value& part : parts) text.append(to_str(heap_, part));
  return Value::string(text.finish());
}

Value Interpreter::eval_compare(const CompareExpr& expr, Scope* scope) {
  Value left = eval(*expr.first, scope);
  for (const auto& [op, operand] : expr.rest) {
    heap_.charge_step();
    const Value right = eval(*operand, scope);
    if (!compare_values(heap_, op, left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Interpreter::eval_logic(const LogicExpr& expr, Scope* scope) {
  Value value;
  for (const ExprPtr& operand : expr.operands) {
    value = eval(*operand, scope);
    if (truthy(heap_, value) == expr.is_or) return value;
  }
  return value;
}

Value Interpreter::eval_conditional(const ConditionalExpr& expr, Scope* scope) {
  if (truthy(heap_, eval(*expr.test, scope))) return eval(*expr.then, scope);
  if (expr.otherwise) return eval(*expr.otherwise, scope);
  return undefined("the inline if-expression on line " + std::to_string(expr.line) +
                   " evaluated to false and no else section was defined.");
}

}  // namespace bulkhead::chat::jinja
