#include "apps/quantize/source_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "model/byte_source.h"
#include "model/side_files.h"
#include "model/write/gguf_config.h"
#include "model/write/json_text.h"
#include "serve/text_loading.h"
#include "text/tokenizer.h"

namespace bulkhead::apps {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using model::write::SideFiles;

constexpr uint64_t kConfigBytesMax = 4u << 20;
constexpr uint64_t kFileBytesMax = 256u << 20;
constexpr std::array<std::string_view, 6> kCarried = {".json",  ".jinja", ".txt",
                                                      ".model", ".py",    ".tiktoken"};

base::Result<std::string> read_file(const fs::path& path, uint64_t limit) {
  BH_ASSIGN(const auto source, model::open_file(path));
  return model::read_text(*source, limit);
}

// Tokenizers, templates, generation settings, code and licences; what quantising writes itself is
// left out.
bool is_carried(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  if (!entry.is_regular_file() || name.starts_with('.')) return false;
  if (name == "config.json" || name.ends_with(".index.json") || name.starts_with("quantize-")) {
    return false;
  }
  if (name.starts_with("LICENSE") || name.starts_with("NOTICE")) return true;
  return std::ranges::find(kCarried, entry.path().extension().string()) != kCarried.end();
}

base::Result<SideFiles> of_directory(const fs::path& directory) {
  SideFiles out;
  BH_ASSIGN(out.config, read_file(directory / "config.json", kConfigBytesMax));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!is_carried(entry)) continue;
    BH_ASSIGN(std::string bytes, read_file(entry.path(), kFileBytesMax));
    out.files.push_back({entry.path().filename().string(), std::move(bytes)});
  }
  if (error) {
    return base::Error{
        base::ErrorCode::kIo, fmt::format("{}: {}", directory.string(), error.message()), {}};
  }
  std::ranges::sort(out.files, {}, &model::write::SideFile::name);
  return out;
}

std::string tokenizer_config(const model::TextSource& text) {
  json::object out = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (!text.bos_token.empty()) out["bos_token"] = text.bos_token;
  if (!text.eos_token.empty()) out["eos_token"] = text.eos_token;
  if (text.add_bos) out["add_bos_token"] = *text.add_bos;
  if (!text.chat_template.empty()) out["chat_template"] = text.chat_template;
  return model::write::json_text(out);
}

base::Result<SideFiles> of_gguf(const model::Checkpoint& checkpoint) {
  SideFiles out;
  BH_ASSIGN(out.config, model::write::config_of_gguf(checkpoint));
  const model::TextSource& text = checkpoint.text();
  if (text.gguf) {
    BH_ASSIGN(std::string tokenizer, text::tokenizer_json_of(serve::to_vocabulary(*text.gguf)));
    out.files.push_back({"tokenizer.json", std::move(tokenizer)});
  }
  out.files.push_back({"tokenizer_config.json", tokenizer_config(text)});
  return out;
}

bool has_weights(const fs::path& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".safetensors") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

base::Result<SideFiles> read_side_files(const model::Checkpoint& checkpoint, const fs::path& path) {
  if (checkpoint.format() == model::CheckpointFormat::kGguf) return of_gguf(checkpoint);
  return of_directory(path);
}

base::Result<std::optional<model::ModelConfig>> bare_config(const fs::path& path) {
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(path, error)) {
    file = path / "config.json";
    if (has_weights(path) || !fs::exists(file, error)) return std::optional<model::ModelConfig>{};
  } else if (path.extension() != ".json") {
    return std::optional<model::ModelConfig>{};
  }
  BH_ASSIGN(const std::string text, read_file(file, kConfigBytesMax));
  model::GenerationDefaults unused;
  BH_ASSIGN(model::ModelConfig config, model::parse_config(text, unused));
  return std::optional<model::ModelConfig>(std::move(config));
}

}  // namespace bulkhead::apps
