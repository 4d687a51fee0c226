#include "model/gguf_text.h"

#include <fmt/format.h>

#include "model/side_files.h"

namespace bulkhead::model {
namespace {

base::Result<std::optional<int32_t>> token_id(const GgufMetadata& metadata, std::string_view key,
                                              size_t vocabulary) {
  const FieldValue value = metadata.find(key);
  if (std::holds_alternative<std::monostate>(value)) return std::optional<int32_t>{};
  const auto* id = std::get_if<int64_t>(&value);
  if (id == nullptr || *id < 0 || static_cast<uint64_t>(*id) >= vocabulary) {
    return metadata.refuse(key, fmt::format("must be a token id from 0 to {}", vocabulary - 1));
  }
  return std::optional<int32_t>(static_cast<int32_t>(*id));
}

base::Result<std::vector<int32_t>> token_types(const GgufMetadata& metadata, size_t vocabulary) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  constexpr int32_t kNormal = 1;
  if (!metadata.has(kKey)) return std::vector<int32_t>(vocabulary, kNormal);
  const std::vector<int64_t>* types = metadata.integers(kKey);
  if (types == nullptr || types->size() != vocabulary) {
    return metadata.refuse(kKey, fmt::format("must be an array of {} whole numbers", vocabulary));
  }
  std::vector<int32_t> out;
  out.reserve(types->size());
  for (const int64_t type : *types) {
    if (type < 0 || type > 6) return metadata.refuse(kKey, "a type outside 0 to 6");
    out.push_back(static_cast<int32_t>(type));
  }
  return out;
}

base::Result<GgufTokens> take_tokens(GgufMetadata& metadata) {
  GgufTokens out;
  out.tokens = metadata.take_strings("tokenizer.ggml.tokens");
  if (out.tokens.empty()) return metadata.refuse("tokenizer.ggml.tokens", "missing or empty");
  BH_ASSIGN(out.types, token_types(metadata, out.tokens.size()));
  constexpr std::string_view kMerges = "tokenizer.ggml.merges";
  if (metadata.has(kMerges) && metadata.strings(kMerges) == nullptr) {
    return metadata.refuse(kMerges, "must be an array of strings");
  }
  out.merges = metadata.take_strings(kMerges);
  if (!metadata.has("tokenizer.ggml.model")) {
    return metadata.refuse("tokenizer.ggml.model", "missing");
  }
  BH_ASSIGN(out.model, metadata.text_or("tokenizer.ggml.model", ""));
  BH_ASSIGN(out.pre, metadata.text_or("tokenizer.ggml.pre", "default"));
  BH_ASSIGN(out.bos, token_id(metadata, "tokenizer.ggml.bos_token_id", out.tokens.size()));
  BH_ASSIGN(out.eos, token_id(metadata, "tokenizer.ggml.eos_token_id", out.tokens.size()));
  BH_ASSIGN(out.add_bos, metadata.flag_or("tokenizer.ggml.add_bos_token", false));
  BH_ASSIGN(out.add_eos, metadata.flag_or("tokenizer.ggml.add_eos_token", false));
  return out;
}

}  // namespace

base::Status take_gguf_text(GgufMetadata& metadata, TextSource& text,
                            GenerationDefaults& generation) {
  BH_ASSIGN(GgufTokens tokens, take_tokens(metadata));
  if (tokens.eos) add_eos(*tokens.eos, generation);
  for (const std::string_view key :
       {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    BH_ASSIGN(const std::optional<int32_t> id, token_id(metadata, key, tokens.tokens.size()));
    if (id) add_eos(*id, generation);
  }
  BH_ASSIGN(text.chat_template, metadata.text_or("tokenizer.chat_template", ""));
  const auto spelling = [&](std::optional<int32_t> id) {
    return id ? tokens.tokens[static_cast<size_t>(*id)] : std::string();
  };
  text.bos_token = spelling(tokens.bos);
  text.eos_token = spelling(tokens.eos);
  if (metadata.has("tokenizer.ggml.add_bos_token")) text.add_bos = tokens.add_bos;
  text.gguf = std::move(tokens);
  return {};
}

}  // namespace bulkhead::model
