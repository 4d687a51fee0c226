#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "model/families/family.h"
#include "model/formats/fold.h"
#include "model/formats/quant_config.h"
#include "model/gguf.h"
#include "model/gguf_text.h"
#include "model/model_tensors.h"
#include "model/safetensors.h"
#include "model/side_files.h"

namespace bulkhead::model {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kConfigBytesMax = 4u << 20;
constexpr uint64_t kTokenizerConfigBytesMax = 32u << 20;
constexpr uint64_t kTemplateBytesMax = 4u << 20;
constexpr uint64_t kTokenizerBytesMax = 256u << 20;
constexpr uint64_t kIndexBytesMax = 64u << 20;
constexpr size_t kOriginDigits = 64;
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";

base::Result<std::string> read_file(const fs::path& path, uint64_t limit_bytes) {
  BH_ASSIGN(const std::unique_ptr<ByteSource> source, open_file(path));
  return read_text(*source, limit_bytes);
}

// Nothing when the file does not exist.
base::Result<std::optional<std::string>> read_if_present(const fs::path& path,
                                                         uint64_t limit_bytes) {
  auto text = read_file(path, limit_bytes);
  if (text.ok()) return std::optional<std::string>(std::move(text).value());
  if (text.error().code == base::ErrorCode::kNotFound) return std::optional<std::string>{};
  return std::move(text).error();
}

base::Result<std::string> read_origin(const fs::path& directory) {
  BH_ASSIGN(const auto text, read_if_present(directory / kOriginFile, kOriginDigits + 2));
  if (!text) return std::string();
  std::string digits = text->substr(0, text->find_first_of("\r\n"));
  if (digits.size() != kOriginDigits ||
      digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return base::invalid_argument(
        "", fmt::format("{}: is not {} hexadecimal digits; written by bulkhead quantize, it names "
                        "the weights that these were made of",
                        kOriginFile, kOriginDigits));
  }
  return digits;
}

struct SideFiles {
  std::string origin;
  ModelConfig config;
  formats::QuantConfig quantisation;
  TextSource text;
  GenerationDefaults generation;
};

base::Result<SideFiles> read_side_files(const fs::path& directory) {
  SideFiles out;
  BH_ASSIGN(const std::string config, read_file(directory / "config.json", kConfigBytesMax));
  BH_ASSIGN(out.config, parse_config(config, out.generation));
  BH_ASSIGN(out.quantisation, formats::parse_quant_config("config.json", config));
  BH_ASSIGN(const auto generation,
            read_if_present(directory / "generation_config.json", kConfigBytesMax));
  if (generation) {
    BH_TRY(parse_generation_config(*generation, out.config.vocabulary, out.generation));
  }
  BH_ASSIGN(const auto tokenizer_config,
            read_if_present(directory / "tokenizer_config.json", kTokenizerConfigBytesMax));
  if (tokenizer_config) BH_TRY(parse_tokenizer_config(*tokenizer_config, out.text));
  BH_ASSIGN(auto chat_template,
            read_if_present(directory / "chat_template.jinja", kTemplateBytesMax));
  if (chat_template) out.text.chat_template = std::move(*chat_template);
  BH_ASSIGN(out.text.tokenizer_json,
            read_if_present(directory / "tokenizer.json", kTokenizerBytesMax));
  if (!out.text.tokenizer_json) {
    BH_ASSIGN(out.text.tiktoken, read_if_present(directory / "tiktoken.model", kTokenizerBytesMax));
  }
  BH_ASSIGN(out.origin, read_origin(directory));
  return out;
}

struct Weights {
  TensorFiles files;
  std::vector<TensorInfo> tensors;
};

base::Status add_shard(const fs::path& path, Weights& out) {
  BH_ASSIGN(std::unique_ptr<ByteSource> source, open_file(path));
  BH_ASSIGN(std::vector<TensorInfo> tensors,
            read_safetensors(*source, static_cast<uint32_t>(out.files.size())));
  out.files.add(std::move(source));
  std::move(tensors.begin(), tensors.end(), std::back_inserter(out.tensors));
  return {};
}

// A file that only weights are called by: model.safetensors, model-00001-of-00005.safetensors.
bool has_weights_name(std::string_view name) {
  if (name == kSingleName) return true;
  return name.starts_with("model-") && name.find("-of-") != std::string_view::npos &&
         name.ends_with(".safetensors");
}

// Weights beside those that are read mean that two versions of a model were mixed: which of them
// was meant is not ours to guess.
base::Status check_no_stray_weights(const fs::path& directory, const std::vector<std::string>& read,
                                    std::string_view reason) {
  std::error_code error;
  std::string stray;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool wanted = std::find(read.begin(), read.end(), name) != read.end();
    if (wanted || !has_weights_name(name)) continue;
    if (stray.empty() || name < stray) stray = name;
  }
  if (error) {
    return base::Error{
        base::ErrorCode::kIo, fmt::format("{}: {}", directory.string(), error.message()), {}};
  }
  if (stray.empty()) return {};
  return base::corrupt(
      fmt::format("{}: {}; remove what is out of date", (directory / stray).string(), reason));
}

base::Result<Weights> read_shards(const fs::path& directory, const std::string& index_text) {
  BH_ASSIGN(const ShardIndex index, parse_shard_index(kIndexName, index_text));
  BH_TRY(check_no_stray_weights(directory, index.files,
                                fmt::format("{} does not name it", kIndexName)));
  Weights out;
  for (const std::string& name : index.files) {
    const size_t before = out.tensors.size();
    BH_TRY(add_shard(directory / name, out));
    const std::span<const TensorInfo> added(out.tensors.data() + before,
                                            out.tensors.size() - before);
    BH_TRY(check_shard(index, kIndexName, static_cast<uint32_t>(out.files.size() - 1), added));
  }
  return out;
}

base::Result<Weights> read_directory_weights(const fs::path& directory) {
  BH_ASSIGN(const auto index, read_if_present(directory / kIndexName, kIndexBytesMax));
  if (index) return read_shards(directory, *index);
  Weights out;
  base::Status single = add_shard(directory / kSingleName, out);
  if (single.ok()) {
    BH_TRY(check_no_stray_weights(
        directory, {std::string(kSingleName)},
        fmt::format("{} is here too, and no {} says which is meant", kSingleName, kIndexName)));
    return out;
  }
  if (single.error().code != base::ErrorCode::kNotFound) return std::move(single).error();
  return base::Error{
      base::ErrorCode::kNotFound,
      fmt::format("{}: neither {} nor {} is there", directory.string(), kSingleName, kIndexName),
      {}};
}

// The last component of the path as the user means it: "models/x/" and "." have one too.
fs::path last_component(const fs::path& path) {
  std::error_code ignored;
  fs::path full = fs::absolute(path, ignored).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  return full.filename();
}

}  // namespace

std::string_view to_string(CheckpointFormat format) {
  return format == CheckpointFormat::kSafetensors ? "safetensors" : "GGUF";
}

base::Result<Checkpoint> Checkpoint::open(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return open_directory(path);
  if (!fs::exists(status)) {
    return base::Error{base::ErrorCode::kNotFound,
                       fmt::format("{}: no such checkpoint; give a directory with config.json and "
                                   "model.safetensors, or a .gguf file",
                                   path.string()),
                       {}};
  }
  return open_gguf(path);
}

base::Result<Checkpoint> Checkpoint::open_directory(const fs::path& path) {
  BH_ASSIGN(SideFiles side, read_side_files(path));
  BH_ASSIGN(Weights weights, read_directory_weights(path));
  Checkpoint out;
  out.name_ = last_component(path).string();
  out.format_ = CheckpointFormat::kSafetensors;
  out.files_ = std::move(weights.files);
  BH_ASSIGN(out.tensors_,
            formats::fold_tensors(std::move(weights.tensors), side.quantisation, out.files_));
  out.origin_ = std::move(side.origin);
  out.config_ = std::move(side.config);
  out.text_ = std::move(side.text);
  out.generation_ = std::move(side.generation);
  out.index_tensors();
  return out;
}

base::Result<Checkpoint> Checkpoint::open_gguf(const fs::path& path) {
  Checkpoint out;
  BH_ASSIGN(std::unique_ptr<ByteSource> source, open_file(path));
  BH_ASSIGN(GgufFile file, read_gguf(*source, 0));
  const FieldValue splits = file.metadata.find("split.count");
  const auto* split_count = std::get_if<int64_t>(&splits);
  if (split_count != nullptr && *split_count > 1) {
    return file.metadata.unsupported("split.count",
                                     "checkpoints split over several GGUF files cannot be loaded");
  }
  BH_ASSIGN(const std::string architecture, file.metadata.text_or("general.architecture", ""));
  BH_ASSIGN(const Family* family, find_family(source->name(), architecture));
  if (family->from_gguf == nullptr) {
    return base::unsupported(fmt::format("{}: {} models are read from safetensors, not from GGUF",
                                         out.name_, family->name));
  }
  BH_ASSIGN(out.config_, family->from_gguf(file));
  BH_TRY(take_gguf_text(file.metadata, out.text_, out.generation_));
  const fs::path name = last_component(path);
  out.name_ = name.extension() == ".gguf" ? name.stem().string() : name.string();
  out.format_ = CheckpointFormat::kGguf;
  out.files_.add(std::move(source));
  out.tensors_ = std::move(file.tensors);
  out.index_tensors();
  return out;
}

void Checkpoint::index_tensors() {
  by_name_.reserve(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

CheckpointSummary Checkpoint::describe() const {
  CheckpointSummary out;
  out.name = name_;
  out.format = format_;
  out.config = config_;
  out.generation = generation_;
  out.chat_template = !text_.chat_template.empty();
  out.tensors = tensors_.size();
  out.files.reserve(files_.size());
  for (size_t i = 0; i < files_.size(); ++i) {
    out.files.push_back(files_[i].name());
    out.file_bytes += files_[i].size();
  }
  std::map<std::string, CheckpointSummary::TypeShare> types;
  for (const TensorInfo& tensor : tensors_) {
    const std::string type = type_text(tensor);
    CheckpointSummary::TypeShare& share = types[type];
    share.type = type;
    share.tensors += 1;
    share.bytes += tensor.bytes;
    out.tensor_bytes += tensor.bytes;
    out.parameters += tensor.elements;
  }
  for (auto& [name, share] : types) out.types.push_back(std::move(share));
  std::sort(out.types.begin(), out.types.end(), [](const auto& a, const auto& b) {
    return std::tie(b.bytes, a.type) < std::tie(a.bytes, b.type);
  });
  const bool gguf = format_ == CheckpointFormat::kGguf;
  const bool has_head =
      find(config_.name_prefix + (gguf ? "output.weight" : "lm_head.weight")) != nullptr;
  out.tied = config_.tie == TieRule::kTied || (config_.tie == TieRule::kByPresence && !has_head);
  out.tokenizer = text_.tokenizer_json ? "tokenizer.json"
                  : text_.tiktoken     ? "tiktoken.model"
                  : text_.gguf ? fmt::format("GGUF {}/{}", text_.gguf->model, text_.gguf->pre)
                               : "none";
  return out;
}

}  // namespace bulkhead::model
