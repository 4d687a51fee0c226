// Text to token ids and back: byte-level BPE as published with the checkpoint.
//
// Threads: immutable after construction; any thread may encode and decode.
// Invariants: encode is exact against Hugging Face `tokenizers` and tiktoken for the same files;
// its time grows near-linearly with the input whatever the input is; control tokens inside text are
// recognised only when the caller says that the text is trusted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bulkhead::text {

using TokenId = int32_t;

// Whether `encode` turns the spelling of an added token (<|im_end|>, ...) into its id.
enum class AddedTokens {
  kRecognise,  // trusted text: chat templates, operator files
  kAsText,     // users' text: spelled-out control tokens are ordinary characters
};

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // dropped by skip_special_tokens
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // only where no word character touches it
  bool normalized = false;   // matched in normalised text
};

// The vocabulary of a GGUF file, as read from its tokenizer.ggml.* keys (the reader lives in
// model/; this is the neutral form that crosses the layer border).
struct GgufVocabulary {
  std::string model;                // "gpt2" = byte-level BPE, the one that is supported here
  std::string pre;                  // "smollm", "llama-bpe", "qwen2", "gpt-2", "default", ...
  std::vector<std::string> tokens;  // id -> piece, in GPT-2 byte spelling
  std::vector<int32_t> types;       // 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte
  std::vector<std::string> merges;  // "left right", in rank order
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  bool add_bos = false;
  bool add_eos = false;
};

// A tiktoken.model file and what tokenizer_config.json says of the tokens behind it: the form that
// Kimi's checkpoints come in.
struct TiktokenVocabulary {
  std::string ranks;              // the file: lines of base64(token), a space, rank
  std::vector<AddedToken> added;  // named ones of the special slots that follow the last rank
};
// How many ids after the last rank are special; those without a name are <|reserved_token_ID|>.
inline constexpr size_t kTiktokenSpecialSlots = 256;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Reads a Hugging Face tokenizer.json. Errors name the JSON path and what is supported.
  static base::Result<std::unique_ptr<Tokenizer>> from_json(std::string_view tokenizer_json);
  static base::Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufVocabulary& vocabulary);
  static base::Result<std::unique_ptr<Tokenizer>> from_tiktoken(
      const TiktokenVocabulary& vocabulary);

  // Token ids of `text`, appended to `out`. No BOS or EOS is added. Invalid UTF-8 is kept: each
  // byte that is part of no character goes through its own byte token, so that decode(encode(x)) ==
  // x for every x when the tokenizer has no normaliser.
  virtual void encode(std::string_view text, AddedTokens added,
                      std::vector<TokenId>& out) const = 0;

  // Ids that the post-processor puts before and after a plain (non-chat) prompt, e.g. Llama's BOS.
  virtual std::span<const TokenId> prefix_ids() const = 0;
  virtual std::span<const TokenId> suffix_ids() const = 0;

  // The bytes a token stands for; empty for an id outside the vocabulary. May be part of a
  // character.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  // True for added tokens flagged special (control tokens): skipped in answers.
  virtual bool is_special(TokenId id) const = 0;
  virtual std::optional<TokenId> find(std::string_view piece) const = 0;  // added or plain token
  virtual std::span<const AddedToken> added_tokens() const = 0;
  virtual size_t vocabulary_size() const = 0;  // largest id + 1

  // All bytes of `ids`, specials left out when `skip_special` is set; may be invalid UTF-8 where
  // the ids are.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;
};

// The same tokenizer as a Hugging Face tokenizer.json, which from_json() and other programs read.
base::Result<std::string> tokenizer_json_of(const GgufVocabulary& vocabulary);

}  // namespace bulkhead::text
