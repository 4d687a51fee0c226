// Expressions: one function per level of precedence, loosest first.
#include <array>
#include <optional>

#include "chat/jinja/syntax/parser_state.h"

namespace bulkhead::chat::jinja {
namespace {

ExprPtr parse_unary(ParserState& state, bool with_filter);

ExprPtr parse_primary(ParserState& state);

ExprPtr parse_list(ParserState& state) {
  auto list = std::make_unique<SequenceExpr>(state.take().line, false);
  while (!state.at_operator("]")) {
    if (!list->items.empty()) state.expect_operator(",");
    if (state.at_operator("]")) break;
    list->items.push_back(parse_expression(state));
  }
  state.expect_operator("]");
  return list;
}

ExprPtr parse_dict(ParserState& state) {
  auto dict = std::make_unique<DictExpr>(state.take().line);
  while (!state.at_operator("}")) {
    if (!dict->entries.empty()) state.expect_operator(",");
    if (state.at_operator("}")) break;
    ExprPtr key = parse_expression(state);
    state.expect_operator(":");
    dict->entries.emplace_back(std::move(key), parse_expression(state));
  }
  state.expect_operator("}");
  return dict;
}

ExprPtr parse_name(ParserState& state) {
  const Token token = state.take();
  const std::string& name = token.text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    return std::make_unique<ConstExpr>(token.line,
                                       Value::boolean(name == "true" || name == "True"));
  }
  if (name == "none" || name == "None") {
    return std::make_unique<ConstExpr>(token.line, Value::none());
  }
  if (name == "caller") state.uses.caller = true;
  if (name == "varargs") state.uses.varargs = true;
  if (name == "kwargs") state.uses.kwargs = true;
  return std::make_unique<NameExpr>(token.line, state.name_id(name));
}

ExprPtr parse_string(ParserState& state) {
  const uint32_t line = state.current().line;
  std::string text;
  while (state.at(TokenKind::kString)) text += state.take().text;
  return std::make_unique<ConstExpr>(line, state.constant(text));
}

ExprPtr parse_primary(ParserState& state) {
  const Token& token = state.current();
  const uint32_t line = token.line;
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name(state);
    case TokenKind::kString:
      return parse_string(state);
    case TokenKind::kInteger:
      return std::make_unique<ConstExpr>(line, Value::integer(state.take().integer));
    case TokenKind::kFloat:
      return std::make_unique<ConstExpr>(line, Value::floating(state.take().number));
    default:
      break;
  }
  if (state.at_operator("[")) return parse_list(state);
  if (state.at_operator("{")) return parse_dict(state);
  if (!state.at_operator("(")) state.unexpected();
  state.take();
  ExprPtr inner = parse_tuple(state, true, {}, true);
  state.expect_operator(")");
  return inner;
}

CallArguments parse_arguments(ParserState& state) {
  state.expect_operator("(");
  CallArguments arguments;
  bool first = true;
  while (!state.at_operator(")")) {
    if (!first) {
      state.expect_operator(",");
      if (state.at_operator(")")) break;
    }
    first = false;
    const bool named = state.at(TokenKind::kName) && state.ahead().kind == TokenKind::kOperator &&
                       state.ahead().text == "=";
    if (state.at_operator("*")) {
      if (arguments.spread_positional || arguments.spread_named) state.unexpected();
      state.take();
      arguments.spread_positional = parse_expression(state);
    } else if (state.at_operator("**")) {
      if (arguments.spread_named) state.unexpected();
      state.take();
      arguments.spread_named = parse_expression(state);
    } else if (named) {
      if (arguments.spread_named) state.unexpected();
      const Value name = state.constant(state.take().text);
      for (const auto& [other, value] : arguments.named) {
        if (other.view() == name.view()) state.unexpected();
      }
      state.take();
      arguments.named.emplace_back(name, parse_expression(state));
    } else {
      if (arguments.spread_positional || arguments.spread_named || !arguments.named.empty()) {
        state.unexpected();
      }
      arguments.positional.push_back(parse_expression(state));
    }
  }
  state.expect_operator(")");
  return arguments;
}

Link parse_attribute(ParserState& state) {
  Link link;
  link.line = state.take().line;
  if (state.at(TokenKind::kName)) {
    link.kind = Link::Kind::kAttribute;
    link.name = state.constant(state.take().text);
  } else if (state.at(TokenKind::kInteger)) {
    link.kind = Link::Kind::kItem;
    link.item = std::make_unique<ConstExpr>(link.line, Value::integer(state.take().integer));
  } else {
    state.unexpected();
  }
  return link;
}

// What stands between the brackets of one subscript: an item or a slice.
void parse_subscribed(ParserState& state, Link& link) {
  const auto at_end = [&state] { return state.at_operator("]") || state.at_operator(","); };
  if (!state.at_operator(":")) {
    link.item = parse_expression(state);
    if (!state.at_operator(":")) {
      link.kind = Link::Kind::kItem;
      return;
    }
  }
  link.kind = Link::Kind::kSlice;
  state.take();
  if (!state.at_operator(":") && !at_end()) link.stop = parse_expression(state);
  if (state.skip_operator(":") && !at_end()) link.step = parse_expression(state);
}

Link parse_subscript(ParserState& state) {
  Link link;
  link.line = state.take().line;
  if (state.at_operator("]")) state.unexpected();
  parse_subscribed(state, link);
  if (state.at_operator(",")) {  // x[a, b]: a tuple as the key
    if (link.kind == Link::Kind::kSlice) state.unexpected();
    auto key = std::make_unique<SequenceExpr>(link.line, true);
    key->items.push_back(std::move(link.item));
    while (state.skip_operator(",")) key->items.push_back(parse_expression(state));
    link.item = std::move(key);
  }
  state.expect_operator("]");
  return link;
}

Link parse_call(ParserState& state) {
  Link link;
  link.kind = Link::Kind::kCall;
  link.line = state.current().line;
  link.arguments = parse_arguments(state);
  return link;
}

std::string dotted_name(ParserState& state) {
  std::string name = state.expect(TokenKind::kName, "a name").text;
  while (state.skip_operator(".")) name += "." + state.expect(TokenKind::kName, "a name").text;
  return name;
}

Link parse_filter(ParserState& state) {
  Link link;
  link.kind = Link::Kind::kFilter;
  link.line = state.current().line;
  const std::string name = dotted_name(state);
  link.name = state.constant(name);
  link.filter = find_filter(name);
  if (link.filter == nullptr) state.add_unknown_name(link.line, "No filter named '" + name + "'.");
  if (state.at_operator("(")) link.arguments = parse_arguments(state);
  return link;
}

// Adds what follows a value directly: attributes, subscripts, calls.
void parse_postfix(ParserState& state, std::vector<Link>& links) {
  while (true) {
    if (state.at_operator(".")) {
      links.push_back(parse_attribute(state));
    } else if (state.at_operator("[")) {
      links.push_back(parse_subscript(state));
    } else if (state.at_operator("(")) {
      links.push_back(parse_call(state));
    } else {
      return;
    }
  }
}

ExprPtr chained(ExprPtr base, std::vector<Link> links) {
  if (links.empty()) return base;
  auto chain = std::make_unique<ChainExpr>(base->line);
  chain->base = std::move(base);
  chain->links = std::move(links);
  return chain;
}

bool starts_test_argument(const ParserState& state) {
  switch (state.current().kind) {
    case TokenKind::kName:
      return !state.at_name("else") && !state.at_name("or") && !state.at_name("and");
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    default:
      return state.at_operator("[") || state.at_operator("{");
  }
}

Link parse_test(ParserState& state) {
  Link link;
  link.kind = Link::Kind::kTest;
  link.line = state.take().line;
  link.negated = state.skip_name("not");
  const std::string name = dotted_name(state);
  link.name = state.constant(name);
  link.test = find_test(name);
  if (state.at_operator("(")) {
    link.arguments = parse_arguments(state);
  } else if (starts_test_argument(state)) {
    if (state.at_name("is")) fail_at(link.line, "You cannot chain multiple tests with is");
    ExprPtr base = parse_primary(state);
    std::vector<Link> links;
    parse_postfix(state, links);
    link.arguments.positional.push_back(chained(std::move(base), std::move(links)));
  }
  if (link.test == nullptr) state.add_unknown_name(link.line, "No test named '" + name + "'.");
  return link;
}

void parse_filters_and_tests(ParserState& state, std::vector<Link>& links) {
  while (true) {
    if (state.skip_operator("|")) {
      links.push_back(parse_filter(state));
    } else if (state.at_name("is")) {
      links.push_back(parse_test(state));
    } else if (state.at_operator("(")) {
      links.push_back(parse_call(state));
    } else {
      return;
    }
  }
}

ExprPtr parse_unary(ParserState& state, bool with_filter) {
  const uint32_t line = state.current().line;
  ExprPtr base;
  if (state.at_operator("-") || state.at_operator("+")) {
    const ParserState::Nesting nesting(state);
    const bool negative = state.take().text == "-";
    base = std::make_unique<SignExpr>(line, negative, parse_unary(state, false));
  } else {
    base = parse_primary(state);
  }
  std::vector<Link> links;
  parse_postfix(state, links);
  if (with_filter) parse_filters_and_tests(state, links);
  return chained(std::move(base), std::move(links));
}

// Left-associative operators of one level, as one flat node.
template <typename Next, size_t kCount>
ExprPtr parse_level(ParserState& state, Next next,
                    const std::array<std::pair<std::string_view, ArithmeticOp>, kCount>& ops) {
  const uint32_t line = state.current().line;
  ExprPtr first = next(state);
  std::unique_ptr<ArithmeticExpr> node;
  while (true) {
    std::optional<ArithmeticOp> found;
    for (const auto& [symbol, op] : ops) {
      if (state.at_operator(symbol)) found = op;
    }
    if (!found) break;
    state.take();
    if (!node) {
      node = std::make_unique<ArithmeticExpr>(line);
      node->first = std::move(first);
    }
    node->rest.emplace_back(*found, next(state));
  }
  return node ? ExprPtr(std::move(node)) : std::move(first);
}

ExprPtr parse_power(ParserState& state) {
  static constexpr std::array<std::pair<std::string_view, ArithmeticOp>, 1> kOps = {
      {{"**", ArithmeticOp::kPower}}};
  return parse_level(state, [](ParserState& s) { return parse_unary(s, true); }, kOps);
}

ExprPtr parse_product(ParserState& state) {
  static constexpr std::array<std::pair<std::string_view, ArithmeticOp>, 4> kOps = {
      {{"*", ArithmeticOp::kMultiply},
       {"/", ArithmeticOp::kDivide},
       {"//", ArithmeticOp::kFloorDivide},
       {"%", ArithmeticOp::kModulo}}};
  return parse_level(state, parse_power, kOps);
}

ExprPtr parse_concat(ParserState& state) {
  const uint32_t line = state.current().line;
  ExprPtr first = parse_product(state);
  if (!state.at_operator("~")) return first;
  auto concat = std::make_unique<ConcatExpr>(line);
  concat->parts.push_back(std::move(first));
  while (state.skip_operator("~")) concat->parts.push_back(parse_product(state));
  return concat;
}

ExprPtr parse_sum(ParserState& state) {
  static constexpr std::array<std::pair<std::string_view, ArithmeticOp>, 2> kOps = {
      {{"+", ArithmeticOp::kAdd}, {"-", ArithmeticOp::kSubtract}}};
  return parse_level(state, parse_concat, kOps);
}

std::optional<CompareOp> take_compare_op(ParserState& state) {
  static constexpr std::array<std::pair<std::string_view, CompareOp>, 6> kOps = {
      {{"==", CompareOp::kEqual},
       {"!=", CompareOp::kNotEqual},
       {"<", CompareOp::kLess},
       {"<=", CompareOp::kLessEqual},
       {">", CompareOp::kGreater},
       {">=", CompareOp::kGreaterEqual}}};
  for (const auto& [symbol, op] : kOps) {
    if (state.skip_operator(symbol)) return op;
  }
  if (state.skip_name("in")) return CompareOp::kIn;
  if (state.at_name("not") && state.ahead().kind == TokenKind::kName &&
      state.ahead().text == "in") {
    state.take();
    state.take();
    return CompareOp::kNotIn;
  }
  return std::nullopt;
}

ExprPtr parse_compare(ParserState& state) {
  const uint32_t line = state.current().line;
  ExprPtr first = parse_sum(state);
  std::unique_ptr<CompareExpr> node;
  while (const std::optional<CompareOp> op = take_compare_op(state)) {
    if (!node) {
      node = std::make_unique<CompareExpr>(line);
      node->first = std::move(first);
    }
    node->rest.emplace_back(*op, parse_sum(state));
  }
  return node ? ExprPtr(std::move(node)) : std::move(first);
}

ExprPtr parse_not(ParserState& state) {
  if (!state.at_name("not")) return parse_compare(state);
  const ParserState::Nesting nesting(state);
  const uint32_t line = state.take().line;
  return std::make_unique<NotExpr>(line, parse_not(state));
}

ExprPtr parse_logic(ParserState& state, bool is_or) {
  const uint32_t line = state.current().line;
  const auto next = [&state, is_or] {
    return is_or ? parse_logic(state, false) : parse_not(state);
  };
  ExprPtr first = next();
  const std::string_view word = is_or ? "or" : "and";
  if (!state.at_name(word)) return first;
  auto logic = std::make_unique<LogicExpr>(line, is_or);
  logic->operands.push_back(std::move(first));
  while (state.skip_name(word)) logic->operands.push_back(next());
  return logic;
}

ExprPtr parse_conditional(ParserState& state) {
  const ParserState::Nesting nesting(state);
  const uint32_t line = state.current().line;
  const size_t unknown_before = state.unknown_names();
  ExprPtr expr = parse_logic(state, true);
  uint32_t turns = 0;
  while (state.skip_name("if")) {
    static constexpr uint32_t kMaxTurns = 16;  // each one nests the expression before it
    if (++turns > kMaxTurns) fail_limit("conditional expression is nested too deeply");
    auto conditional = std::make_unique<ConditionalExpr>(line);
    conditional->test = parse_logic(state, true);
    conditional->then = std::move(expr);
    if (state.skip_name("else")) conditional->otherwise = parse_conditional(state);
    expr = std::move(conditional);
  }
  if (turns > 0) state.leave_unknown_names_to_render(unknown_before);
  return expr;
}

}  // namespace

ExprPtr parse_expression(ParserState& state, bool with_conditional) {
  if (with_conditional) return parse_conditional(state);
  const ParserState::Nesting nesting(state);
  return parse_logic(state, true);
}

ExprPtr parse_tuple(ParserState& state, bool with_conditional, std::string_view end_name,
                    bool parentheses) {
  const uint32_t line = state.current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) state.expect_operator(",");
    const bool at_end = state.at(TokenKind::kVariableEnd) || state.at(TokenKind::kBlockEnd) ||
                        state.at_operator(")") || (!end_name.empty() && state.at_name(end_name));
    if (at_end) break;
    items.push_back(parse_expression(state, with_conditional));
    if (!state.at_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items.front());
    if (!parentheses) state.unexpected();
  }
  auto tuple = std::make_unique<SequenceExpr>(line, true);
  tuple->items = std::move(items);
  return tuple;
}

ExprPtr parse_filter_chain(ParserState& state, bool start_inline) {
  auto chain = std::make_unique<ChainExpr>(state.current().line);
  if (start_inline) chain->links.push_back(parse_filter(state));
  while (state.skip_operator("|")) chain->links.push_back(parse_filter(state));
  return chain->links.empty() ? nullptr : ExprPtr(std::move(chain));
}

}  // namespace bulkhead::chat::jinja
