// Builds the text side of a model, tokenizer and chat template, from what its checkpoint carries.
//
// Threads: pure functions; the results are immutable.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "chat/template.h"
#include "model/checkpoint.h"
#include "text/tokenizer.h"

namespace bulkhead::serve {

struct TextSide {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::optional<chat::ChatTemplate> chat_template;  // empty: the checkpoint has none
  std::string chat_template_source;                 // its text
};

// `template_path` overrides the checkpoint's template when not empty.
base::Result<TextSide> load_text(const model::Checkpoint& checkpoint,
                                 const std::string& template_path);

}  // namespace bulkhead::serve
