#include "model/config_file.h"

#include <memory>
#include <system_error>

#include "model/byte_source.h"
#include "model/side_files.h"

namespace bulkhead::model {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBytesMax = 4u << 20;
constexpr const char* kFileName = "config.json";

std::string name_of(const fs::path& file) {
  if (file.filename() != kFileName) return file.stem().string();
  std::error_code ignored;
  return fs::absolute(file, ignored).lexically_normal().parent_path().filename().string();
}

}  // namespace

base::Result<ConfigFile> read_config_file(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? path / kFileName : path;
  BH_ASSIGN(const std::unique_ptr<ByteSource> source, open_file(file));
  BH_ASSIGN(const std::string text, read_text(*source, kBytesMax));
  ConfigFile out;
  out.name = name_of(file);
  GenerationDefaults unused;
  BH_ASSIGN(out.config, parse_config(text, unused));
  BH_ASSIGN(const formats::QuantConfig quantised,
            formats::parse_quant_config(source->name(), text));
  out.quantised = quantised.method;
  return out;
}

}  // namespace bulkhead::model
