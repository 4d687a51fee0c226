// An opened checkpoint: every fact about it, and its tensors checked and readable, nothing loaded.
//
// A checkpoint is a directory (safetensors in one file or in shards with an index; config.json,
// tokenizer.json, tokenizer_config.json or chat_template.jinja, generation_config.json) or a .gguf
// file. Errors name the file, and the tensor, key or byte where one is to blame.
//
// Threads: immutable after open(); read() may be called by any number of threads at once.
// Invariants: every TensorInfo is inside its file and overlaps no other (tensor.h); the tensors of
// a quantised weight are one (formats/fold.h), so that names and shapes are those of a plain
// checkpoint. Files are held
// open and read by position, never through a mapping: a file that shrinks under us is an error of
// the read that meets it, not a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/byte_source.h"
#include "model/model_config.h"
#include "model/tensor.h"
#include "model/tensor_files.h"

namespace bulkhead::model {

enum class CheckpointFormat { kSafetensors, kGguf };
std::string_view to_string(CheckpointFormat format);  // "safetensors", "GGUF"

// The vocabulary of a GGUF file as its tokenizer.ggml.* keys give it (text::GgufVocabulary's twin
// on this side of the layer border).
struct GgufTokens {
  std::string model;                // "gpt2", "llama", ...
  std::string pre;                  // "smollm", "llama-bpe", ...; "default" when absent
  std::vector<std::string> tokens;  // id -> piece; not empty
  std::vector<int32_t> types;       // same length as tokens (all 1 when the file has none)
  std::vector<std::string> merges;  // "left right", in rank order
  std::optional<int32_t> bos;       // ids are inside tokens
  std::optional<int32_t> eos;
  bool add_bos = false;
  bool add_eos = false;
};

// A token that tokenizer_config.json declares (text::AddedToken's twin on this side of the layer
// border).
struct DeclaredToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;
  bool normalized = false;
};

// What the text side is built from. One of tokenizer_json, tiktoken and gguf is present, or none
// when the directory has neither tokenizer.json nor tiktoken.model.
struct TextSource {
  std::optional<std::string> tokenizer_json;  // the file's bytes
  std::optional<std::string> tiktoken;        // the bytes of tiktoken.model
  std::vector<DeclaredToken> declared;        // by tokenizer_config.json; used with tiktoken
  std::optional<GgufTokens> gguf;
  std::string chat_template;  // Jinja text; empty: the checkpoint has none
  std::string bos_token;      // spelling, for the template's variables; empty: none
  std::string eos_token;
  std::optional<bool> add_bos;  // tokenizer_config.json's or GGUF's add_bos_token, where given
};

// What the checkpoint's authors recommend; a request overrides each.
struct GenerationDefaults {
  std::vector<int32_t> eos_ids;  // ascending, unique: union of all places that name one
  std::optional<bool> do_sample;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> repetition_penalty;
};

// The facts `bulkhead inspect` prints.
struct CheckpointSummary {
  struct TypeShare {
    std::string type;  // "BF16", "Q4_1", "INT4 g32 symmetric"
    uint64_t tensors = 0;
    uint64_t bytes = 0;
  };
  std::string name;
  CheckpointFormat format = CheckpointFormat::kSafetensors;
  std::vector<std::string> files;  // weight files, plain names
  uint64_t file_bytes = 0;
  uint64_t tensors = 0;
  uint64_t tensor_bytes = 0;
  uint64_t parameters = 0;       // elements of all tensors, a quantised weight's own counted
  std::vector<TypeShare> types;  // largest first
  ModelConfig config;
  bool tied = false;      // declared, or because the head is absent
  std::string tokenizer;  // "tokenizer.json", "GGUF gpt2/smollm", "none"
  bool chat_template = false;
  GenerationDefaults generation;
};

// Beside quantised weights: which weights they were made of, in 64 hexadecimal digits.
inline constexpr std::string_view kOriginFile = "bulkhead-origin.txt";

class Checkpoint {
 public:
  static base::Result<Checkpoint> open(const std::filesystem::path& path);

  // The directory's or the file's name without ".gguf".
  const std::string& name() const { return name_; }
  CheckpointFormat format() const { return format_; }
  const ModelConfig& config() const { return config_; }
  const TextSource& text() const { return text_; }
  const GenerationDefaults& generation() const { return generation_; }
  // What kOriginFile says; empty: these weights are their own.
  const std::string& origin() const { return origin_; }
  CheckpointSummary describe() const;

  std::span<const TensorInfo> tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;  // null when there is none
  // The name of the file a tensor lies in, for messages.
  const std::string& file_name(const TensorInfo& tensor) const { return files_.name_of(tensor); }
  // Reads out.size() stored bytes of the tensor from byte `begin` of it.
  base::Status read(const TensorInfo& tensor, uint64_t begin, std::span<std::byte> out) const {
    return files_.read(tensor, begin, out);
  }
  const TensorFiles& files() const { return files_; }

 private:
  static base::Result<Checkpoint> open_directory(const std::filesystem::path& path);
  static base::Result<Checkpoint> open_gguf(const std::filesystem::path& path);
  void index_tensors();

  std::string name_;
  std::string origin_;
  CheckpointFormat format_ = CheckpointFormat::kSafetensors;
  TensorFiles files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;  // views into tensors_
  ModelConfig config_;
  TextSource text_;
  GenerationDefaults generation_;
};

}  // namespace bulkhead::model
