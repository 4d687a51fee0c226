// What the statement and the expression parser share: the token cursor, nesting, name numbers.
//
// Threads: one parser per template compile. Invariants as in parser.h.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/jinja/syntax/ast.h"
#include "chat/jinja/syntax/lexer.h"

namespace bulkhead::chat::jinja {

class ParserState {
 public:
  ParserState(std::vector<Token> tokens, uint32_t max_depth, Heap& heap);

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take();
  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_operator(std::string_view symbol) const;
  bool at_name(std::string_view name) const;
  bool skip_operator(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view symbol);
  Token expect(TokenKind kind, std::string_view what);
  [[noreturn]] void unexpected() const;

  NameId name_id(const std::string& name);
  Value constant(std::string_view text);  // a trusted string
  Heap& heap() { return heap_; }
  std::vector<std::string> take_names() { return std::move(names_); }

  // Marks a use of `name`, so that macros and loops know which specials their bodies touch.
  struct Uses {
    bool caller = false;
    bool varargs = false;
    bool kwargs = false;
  };
  Uses uses;

  // Filters and tests that do not exist. jinja2 refuses them at compile time, except inside an if
  // or a conditional expression (and there again inside a loop, macro or other inner scope).
  void add_unknown_name(uint32_t line, std::string message);
  size_t unknown_names() const { return unknown_.size(); }
  void leave_unknown_names_to_render(size_t from);
  void insist_on_unknown_names(size_t from);
  void refuse_unknown_names() const;

  // Counts one level of nesting while alive.
  class Nesting {
   public:
    explicit Nesting(ParserState& state) : state_(state) { state_.enter(); }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --state_.depth_; }

   private:
    ParserState& state_;
  };

 private:
  struct UnknownName {
    uint32_t line;
    std::string message;
    bool certain;  // refused whatever surrounds it
  };

  void enter();

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  uint32_t max_depth_;
  Heap& heap_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
  std::vector<UnknownName> unknown_;
};

// Expressions (parse_expression.cc).
ExprPtr parse_expression(ParserState& state, bool with_conditional = true);
// An expression or, with commas, a tuple of them.
ExprPtr parse_tuple(ParserState& state, bool with_conditional = true,
                    std::string_view end_name = {}, bool parentheses = false);
ExprPtr parse_filter_chain(ParserState& state, bool start_inline);

}  // namespace bulkhead::chat::jinja
