#include "serve/text_loading.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace bulkhead::serve {
namespace {

// A template file is text that somebody wrote; nobody wrote one of this size.
constexpr size_t kTemplateBytesMax = 1u << 20;

base::Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kTemplateBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) {
    return base::Error{base::ErrorCode::kIo, fmt::format("cannot read {}", path), {}};
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kTemplateBytesMax) {
    return base::invalid_argument("--chat-template", fmt::format("{} is larger than 1 MiB", path));
  }
  return text;
}

text::TiktokenVocabulary to_vocabulary(const model::TextSource& source) {
  text::TiktokenVocabulary vocabulary;
  vocabulary.ranks = *source.tiktoken;
  for (const model::DeclaredToken& token : source.declared) {
    vocabulary.added.push_back({token.id, token.content, token.special, token.lstrip, token.rstrip,
                                token.single_word, token.normalized});
  }
  return vocabulary;
}

base::Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const model::TextSource& source) {
  if (source.tokenizer_json) return text::Tokenizer::from_json(*source.tokenizer_json);
  if (source.tiktoken) return text::Tokenizer::from_tiktoken(to_vocabulary(source));
  if (source.gguf) return text::Tokenizer::from_gguf(serve::to_vocabulary(*source.gguf));
  return base::Error{base::ErrorCode::kNotFound,
                     "the checkpoint has no tokenizer: put its tokenizer.json (or tiktoken.model) "
                     "beside config.json",
                     {}};
}

}  // namespace

text::GgufVocabulary to_vocabulary(const model::GgufTokens& tokens) {
  text::GgufVocabulary vocabulary;
  vocabulary.model = tokens.model;
  vocabulary.pre = tokens.pre;
  vocabulary.tokens = tokens.tokens;
  vocabulary.types = tokens.types;
  vocabulary.merges = tokens.merges;
  vocabulary.bos = tokens.bos;
  vocabulary.eos = tokens.eos;
  vocabulary.add_bos = tokens.add_bos;
  vocabulary.add_eos = tokens.add_eos;
  return vocabulary;
}

base::Result<TextSide> load_text(const model::Checkpoint& checkpoint,
                                 const std::string& template_path) {
  TextSide side;
  auto tokenizer = load_tokenizer(checkpoint.text());
  if (!tokenizer.ok()) return std::move(tokenizer).error().within("tokenizer");
  side.tokenizer = std::move(tokenizer).value();
  std::string source = checkpoint.text().chat_template;
  if (!template_path.empty()) {
    BH_ASSIGN(source, read_file(template_path));
  }
  side.formats = chat::choose_formats(source, [&side](std::string_view spelled) {
    const auto tokens = side.tokenizer->added_tokens();
    return std::any_of(tokens.begin(), tokens.end(),
                       [&](const text::AddedToken& token) { return token.content == spelled; });
  });
  if (source.empty()) return side;
  auto compiled = chat::ChatTemplate::compile(source);
  if (!compiled.ok()) return std::move(compiled).error().within("chat template");
  side.chat_template.emplace(std::move(compiled).value());
  side.chat_template_source = std::move(source);
  return side;
}

constraint::Vocabulary constraint_vocabulary(const text::Tokenizer& tokenizer, int32_t width,
                                             std::span<const wire::TokenId> end_ids) {
  const size_t size = std::min(tokenizer.vocabulary_size(), static_cast<size_t>(width));
  constraint::Vocabulary out;
  out.width = width;
  out.tokens.reserve(size);
  for (size_t id = 0; id < size; ++id) {
    out.tokens.emplace_back(tokenizer.token_bytes(static_cast<wire::TokenId>(id)));
  }
  out.control.resize(size);
  for (const text::AddedToken& added : tokenizer.added_tokens()) {
    const auto id = static_cast<size_t>(added.id);
    if (added.id < 0 || id >= size) continue;
    out.tokens[id] = added.content;
    out.control[id] = true;
  }
  for (const wire::TokenId id : end_ids) {
    if (id >= 0 && static_cast<size_t>(id) < size) out.end_ids.push_back(id);
  }
  return out;
}

}  // namespace bulkhead::serve
