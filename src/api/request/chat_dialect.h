// What one model's chats need: its template's habits, and how it writes reasoning and tool calls.
//
// Threads: immutable; any thread. Invariant: what a request wants of the two is settled here and
// nowhere else.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "api/answer/output_pipeline.h"
#include "api/api.h"
#include "api/errors.h"
#include "api/request/request_fields.h"
#include "chat/output/output_parser.h"
#include "chat/template.h"
#include "chat/template_traits.h"

namespace bulkhead::api {

class ChatDialect {
 public:
  // What is given must outlive the dialect.
  ChatDialect(const ApiDeps& deps, const ModelCard& model);

  // Whether the tools that the request has, and its wish to call one, can be honoured.
  Failure check(const RequestFields& fields) const;
  // Messages, tools and variables as the template wants them. Moves them out of `fields`.
  void fill(RequestFields& fields, chat::RenderInput& out) const;

  // The three below are of one request, before fill().
  std::shared_ptr<const chat::ToolSchemas> schemas(const RequestFields& fields) const;
  // How the text of an answer is taken apart; null: not at all.
  std::shared_ptr<const OutputMarkup> markup(
      const RequestFields& fields, chat::ThinkingStart start,
      std::shared_ptr<const chat::ToolSchemas> schemas) const;
  // Adds the calls that the answer must have to its required form.
  void require_calls(RequestFields& fields) const;
  // Where the prompt opens the model's reasoning, a required form begins after it.
  void let_think(RequestFields& fields, chat::ThinkingStart start) const;

 private:
  const ApiDeps& deps_;
  const ModelCard& model_;
  chat::TemplateTraits traits_;
  std::vector<std::pair<wire::TokenId, size_t>> marker_tokens_;
};

}  // namespace bulkhead::api
