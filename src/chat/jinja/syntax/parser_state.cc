#include "chat/jinja/syntax/parser_state.h"

#include <algorithm>

namespace bulkhead::chat::jinja {

ParserState::ParserState(std::vector<Token> tokens, uint32_t max_depth, Heap& heap)
    : tokens_(std::move(tokens)), max_depth_(max_depth), heap_(heap) {
  for (const char* special : {"loop", "caller", "varargs", "kwargs"}) name_id(special);
}

Token ParserState::take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ParserState::at_operator(std::string_view symbol) const {
  return at(TokenKind::kOperator) && current().text == symbol;
}

bool ParserState::at_name(std::string_view name) const {
  return at(TokenKind::kName) && current().text == name;
}

bool ParserState::skip_operator(std::string_view symbol) {
  const bool found = at_operator(symbol);
  if (found) take();
  return found;
}

bool ParserState::skip_name(std::string_view name) {
  const bool found = at_name(name);
  if (found) take();
  return found;
}

void ParserState::expect_operator(std::string_view symbol) {
  if (skip_operator(symbol)) return;
  fail_at(current().line, "expected '" + std::string(symbol) + "'");
}

Token ParserState::expect(TokenKind kind, std::string_view what) {
  if (!at(kind)) fail_at(current().line, "expected " + std::string(what));
  return take();
}

void ParserState::unexpected() const {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kEnd:
      fail_at(token.line, "unexpected end of template");
    case TokenKind::kVariableEnd:
    case TokenKind::kBlockEnd:
      fail_at(token.line, "unexpected end of tag");
    default:
      fail_at(token.line, "unexpected '" + token.text + "'");
  }
}

NameId ParserState::name_id(const std::string& name) {
  const auto [it, added] = ids_.emplace(name, static_cast<NameId>(names_.size()));
  if (added) names_.push_back(name);
  return it->second;
}

Value ParserState::constant(std::string_view text) {
  const Str made = make_str(heap_, text, true);
  if (made.buffer != nullptr) made.buffer->growable = false;  // shared by every render
  return Value::string(made);
}

void ParserState::add_unknown_name(uint32_t line, std::string message) {
  unknown_.push_back({line, std::move(message), false});
}

void ParserState::leave_unknown_names_to_render(size_t from) {
  const auto first = unknown_.begin() + static_cast<std::ptrdiff_t>(from);
  unknown_.erase(
      std::remove_if(first, unknown_.end(), [](const UnknownName& name) { return !name.certain; }),
      unknown_.end());
}

void ParserState::insist_on_unknown_names(size_t from) {
  for (size_t i = from; i < unknown_.size(); ++i) unknown_[i].certain = true;
}

void ParserState::refuse_unknown_names() const {
  if (!unknown_.empty()) fail_at(unknown_.front().line, unknown_.front().message);
}

void ParserState::enter() {
  if (++depth_ <= max_depth_) return;
  throw RenderError{base::ErrorCode::kResourceExhausted,
                    "blocks and expressions are nested deeper than " + std::to_string(max_depth_),
                    current().line};
}

}  // namespace bulkhead::chat::jinja
