// Statements.
#include "chat/jinja/syntax/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "chat/jinja/syntax/parser_state.h"

namespace bulkhead::chat::jinja {
namespace {

class StatementParser {
 public:
  explicit StatementParser(ParserState& state) : state_(state) {}

  Body parse_all() {
    Body body = parse_body({});
    if (!state_.at(TokenKind::kEnd)) state_.unexpected();
    state_.refuse_unknown_names();
    return body;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  bool at_any(Ends names) const {
    return std::any_of(names.begin(), names.end(),
                       [this](std::string_view name) { return state_.at_name(name); });
  }

  // Statements up to (not including) one of the end tags; its name is the current token then.
  Body parse_body(Ends ends) {
    const ParserState::Nesting nesting(state_);
    Body body;
    while (!state_.at(TokenKind::kEnd)) {
      const uint32_t line = state_.current().line;
      if (state_.at(TokenKind::kData)) {
        const Token data = state_.take();
        body.push_back(std::make_unique<TextStmt>(line, state_.constant(data.text)));
      } else if (state_.at(TokenKind::kVariableBegin)) {
        state_.take();
        auto output = std::make_unique<OutputStmt>(line);
        output->values.push_back(parse_tuple(state_));
        state_.expect(TokenKind::kVariableEnd, "end of print statement");
        body.push_back(std::move(output));
      } else {
        state_.expect(TokenKind::kBlockBegin, "a tag");
        if (at_any(ends)) return body;
        body.push_back(parse_statement());
        state_.expect(TokenKind::kBlockEnd, "end of statement block");
      }
    }
    if (ends.size() > 0) {
      std::string wanted;
      for (const std::string_view end : ends) {
        wanted += (wanted.empty() ? "'" : " or '") + std::string(end) + "'";
      }
      fail_at(state_.current().line, "unexpected end of template, looking for " + wanted);
    }
    return body;
  }

  // The body of a tag: from the tag's end to one of the end tags.
  Body parse_tag_body(Ends ends) {
    state_.skip_operator(":");
    state_.expect(TokenKind::kBlockEnd, "end of statement block");
    return parse_body(ends);
  }

  Body parse_scoped_body(std::string_view end) {
    const size_t unknown = state_.unknown_names();
    Body body = parse_tag_body({end});
    state_.take();
    state_.insist_on_unknown_names(unknown);
    return body;
  }

  StmtPtr parse_statement() {
    using Parse = StmtPtr (StatementParser::*)();
    static constexpr std::array<std::pair<std::string_view, Parse>, 13> kTags = {{
        {"for", &StatementParser::parse_for},
        {"if", &StatementParser::parse_if},
        {"set", &StatementParser::parse_set},
        {"macro", &StatementParser::parse_macro},
        {"call", &StatementParser::parse_call_block},
        {"filter", &StatementParser::parse_filter_block},
        {"with", &StatementParser::parse_with},
        {"block", &StatementParser::parse_block},
        {"generation", &StatementParser::parse_generation},
        {"print", &StatementParser::parse_print},
        {"break", &StatementParser::parse_loop_control},
        {"continue", &StatementParser::parse_loop_control},
        {"autoescape", &StatementParser::refuse},
    }};
    if (!state_.at(TokenKind::kName)) fail_at(state_.current().line, "tag name expected");
    const std::string& name = state_.current().text;
    for (const auto& [tag, parse] : kTags) {
      if (name == tag) return (this->*parse)();
    }
    if (name == "include" || name == "import" || name == "from" || name == "extends") refuse();
    fail_at(state_.current().line, "unknown tag '" + name + "'");
  }

  [[noreturn]] StmtPtr refuse() {
    fail_at(state_.current().line,
            "the tag '" + state_.current().text + "' is not available in chat templates");
  }

  Target parse_simple_target(bool with_namespace) {
    Target target;
    if (state_.skip_operator("(")) {
      target = parse_target(with_namespace, {});
      state_.expect_operator(")");
      return target;
    }
    const Token name = state_.expect(TokenKind::kName, "a name to assign to");
    for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name.text == constant) fail_at(name.line, "can't assign to '" + name.text + "'");
    }
    target.name = state_.name_id(name.text);
    if (with_namespace && state_.skip_operator(".")) {
      target.kind = Target::Kind::kNamespace;
      target.attribute = state_.constant(state_.expect(TokenKind::kName, "a name").text);
    } else if (name.text == "loop" && loop_depth_ > 0) {
      fail_at(name.line, "Can't assign to special loop variable in for-loop target");
    }
    return target;
  }

  Target parse_target(bool with_namespace, std::string_view end_name) {
    const ParserState::Nesting nesting(state_);
    Target target = parse_simple_target(with_namespace);
    if (!state_.at_operator(",")) return target;
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.items.push_back(std::move(target));
    while (state_.skip_operator(",")) {
      if (state_.at_operator(")") || state_.at_operator("=") || state_.at(TokenKind::kBlockEnd) ||
          (!end_name.empty() && state_.at_name(end_name))) {
        break;
      }
      tuple.items.push_back(parse_simple_target(with_namespace));
    }
    return tuple;
  }

  StmtPtr parse_for() {
    auto loop = std::make_unique<ForStmt>(state_.take().line);
    ++loop_depth_;
    loop->target = parse_target(false, "in");
    if (!state_.skip_name("in")) state_.unexpected();
    loop->iterable = parse_tuple(state_, false, "recursive");
    const size_t unknown = state_.unknown_names();
    if (state_.skip_name("if")) loop->filter = parse_expression(state_);
    loop->recursive = state_.skip_name("recursive");
    loop->body = parse_tag_body({"endfor", "else"});
    --loop_depth_;
    if (state_.take().text == "else") {
      loop->otherwise = parse_tag_body({"endfor"});
      state_.take();
    }
    state_.insist_on_unknown_names(unknown);
    return loop;
  }

  StmtPtr parse_if() {
    auto branch = std::make_unique<IfStmt>(state_.take().line);
    const size_t unknown = state_.unknown_names();
    while (true) {
      ExprPtr test = parse_tuple(state_, false);
      Body body = parse_tag_body({"elif", "else", "endif"});
      branch->branches.emplace_back(std::move(test), std::move(body));
      const bool is_elif = state_.at_name("elif");
      const bool is_else = state_.at_name("else");
      state_.take();
      if (is_elif) continue;
      if (is_else) {
        branch->otherwise = parse_tag_body({"endif"});
        state_.take();
      }
      break;
    }
    state_.leave_unknown_names_to_render(unknown);
    return branch;
  }

  StmtPtr parse_set() {
    const uint32_t line = state_.take().line;
    Target target = parse_target(true, {});
    if (state_.skip_operator("=")) {
      auto set = std::make_unique<SetStmt>(line);
      set->target = std::move(target);
      set->value = parse_tuple(state_);
      return set;
    }
    auto set = std::make_unique<SetBlockStmt>(line);
    set->target = std::move(target);
    set->filter = parse_filter_chain(state_, false);
    set->body = parse_scoped_body("endset");
    return set;
  }

  void parse_signature(Signature& signature) {
    state_.expect_operator("(");
    while (!state_.at_operator(")")) {
      if (!signature.parameters.empty()) state_.expect_operator(",");
      const Token name = state_.expect(TokenKind::kName, "a parameter name");
      signature.parameters.push_back(state_.name_id(name.text));
      signature.names.push_back(state_.constant(name.text));
      if (state_.skip_operator("=")) {
        signature.defaults.push_back(parse_expression(state_));
      } else if (!signature.defaults.empty()) {
        fail_at(name.line, "non-default argument follows default argument");
      }
    }
    state_.expect_operator(")");
  }

  // A macro's body, noting which of caller, varargs and kwargs it reads.
  void parse_macro_body(MacroStmt& macro, std::string_view end) {
    const ParserState::Uses outer = std::exchange(state_.uses, {});
    const uint32_t loops = std::exchange(loop_depth_, 0);
    macro.body = parse_scoped_body(end);
    loop_depth_ = loops;
    const auto declared = [&macro](NameId name) {
      const auto& parameters = macro.signature.parameters;
      return std::find(parameters.begin(), parameters.end(), name) != parameters.end();
    };
    macro.signature.uses_caller = state_.uses.caller && !declared(kNameCaller);
    macro.signature.uses_varargs = state_.uses.varargs && !declared(kNameVarargs);
    macro.signature.uses_kwargs = state_.uses.kwargs && !declared(kNameKwargs);
    state_.uses.caller |= outer.caller;
    state_.uses.varargs |= outer.varargs;
    state_.uses.kwargs |= outer.kwargs;
  }

  StmtPtr parse_macro() {
    auto macro = std::make_unique<MacroStmt>(state_.take().line);
    macro->spelled = state_.expect(TokenKind::kName, "a macro name").text;
    macro->name = state_.name_id(macro->spelled);
    parse_signature(macro->signature);
    parse_macro_body(*macro, "endmacro");
    return macro;
  }

  StmtPtr parse_call_block() {
    auto block = std::make_unique<CallBlockStmt>(state_.take().line);
    block->macro.spelled = "caller";
    block->macro.name = kNameCaller;
    if (state_.at_operator("(")) parse_signature(block->macro.signature);
    block->call = parse_expression(state_);
    const bool is_call =
        block->call->kind == Expr::Kind::kChain &&
        static_cast<const ChainExpr&>(*block->call).links.back().kind == Link::Kind::kCall;
    if (!is_call) fail_at(block->line, "expected call");
    parse_macro_body(block->macro, "endcall");
    return block;
  }

  StmtPtr parse_filter_block() {
    auto block = std::make_unique<FilterBlockStmt>(state_.take().line);
    block->filter = parse_filter_chain(state_, true);
    block->body = parse_scoped_body("endfilter");
    return block;
  }

  StmtPtr parse_with() {
    auto with = std::make_unique<WithStmt>(state_.take().line);
    while (!state_.at(TokenKind::kBlockEnd)) {
      if (!with->bindings.empty()) state_.expect_operator(",");
      Target target = parse_target(false, {});
      state_.expect_operator("=");
      with->bindings.emplace_back(std::move(target), parse_expression(state_));
    }
    with->body = parse_scoped_body("endwith");
    return with;
  }

  StmtPtr parse_block() {
    auto block = std::make_unique<ScopeStmt>(Stmt::Kind::kBlock, state_.take().line);
    const std::string name = state_.expect(TokenKind::kName, "a block name").text;
    block->sees_locals = state_.skip_name("scoped");
    block->body = parse_scoped_body("endblock");
    state_.skip_name(name);
    return block;
  }

  StmtPtr parse_generation() {
    auto block = std::make_unique<ScopeStmt>(Stmt::Kind::kGeneration, state_.take().line);
    const uint32_t loops = std::exchange(loop_depth_, 0);  // jinja2 makes the body a function
    block->body = parse_scoped_body("endgeneration");
    loop_depth_ = loops;
    return block;
  }

  StmtPtr parse_print() {
    auto output = std::make_unique<OutputStmt>(state_.take().line);
    while (!state_.at(TokenKind::kBlockEnd)) {
      if (!output->values.empty()) state_.expect_operator(",");
      output->values.push_back(parse_expression(state_));
    }
    return output;
  }

  StmtPtr parse_loop_control() {
    const Token tag = state_.take();
    if (loop_depth_ == 0) fail_at(tag.line, "'" + tag.text + "' outside loop");
    return std::make_unique<SimpleStmt>(
        tag.text == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue, tag.line);
  }

  ParserState& state_;
  uint32_t loop_depth_ = 0;
};

}  // namespace

TemplateAst parse_template(std::string_view source, uint32_t max_depth, Heap& heap) {
  ParserState state(tokenize(source), max_depth, heap);
  TemplateAst ast;
  ast.body = StatementParser(state).parse_all();
  ast.names = state.take_names();
  return ast;
}

}  // namespace bulkhead::chat::jinja
