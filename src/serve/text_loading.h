// Builds the text side of a model, tokenizer and chat template, from what its checkpoint carries.
//
// Threads: pure functions; the results are immutable.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "chat/output/format_choice.h"
#include "chat/template.h"
#include "constraint/vocabulary.h"
#include "model/checkpoint.h"
#include "text/tokenizer.h"

namespace bulkhead::serve {

struct TextSide {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::optional<chat::ChatTemplate> chat_template;  // empty: the checkpoint has none
  std::string chat_template_source;                 // its text
  chat::FormatChoice formats;  // of tool calls and reasoning, as template and tokenizer tell
};

// A GGUF file's vocabulary in the words of the text side.
text::GgufVocabulary to_vocabulary(const model::GgufTokens& tokens);

// `template_path` overrides the checkpoint's template when not empty.
base::Result<TextSide> load_text(const model::Checkpoint& checkpoint,
                                 const std::string& template_path);

// The tokens as constraints see them: rows of logits have `width` values, which may be more than
// the tokenizer has ids.
constraint::Vocabulary constraint_vocabulary(const text::Tokenizer& tokenizer, int32_t width,
                                             std::span<const wire::TokenId> end_ids);

}  // namespace bulkhead::serve
