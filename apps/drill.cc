#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>

#include "apps/drill/exercise.h"
#include "apps/server_address.h"
#include "commands.h"

namespace bulkhead::apps {
namespace {

base::Result<std::string> admin_key(const DrillOptions& options) {
  if (options.admin_key_file.empty()) {
    const char* key = std::getenv("BULKHEAD_ADMIN_KEY");
    return std::string(key == nullptr ? "" : key);
  }
  std::ifstream file(options.admin_key_file);
  std::string key;
  if (std::getline(file, key) && !key.empty()) return key;
  return base::invalid_argument(
      "--admin-key-file", fmt::format("{} has no key in its first line", options.admin_key_file));
}

// Nothing: the drill starts its own.
base::Result<std::optional<Target>> running_server(const DrillOptions& options) {
  if (options.url.empty()) return std::optional<Target>();
  BH_ASSIGN(const ServerAddress address, parse_server_url(options.url));
  Target target;
  target.host = address.host;
  target.port = address.port;
  BH_ASSIGN(target.admin_key, admin_key(options));
  if (!options.api_key.empty()) target.api_keys = {options.api_key};
  return std::optional(std::move(target));
}

void tell(const Row& row, size_t number, size_t rows) {
  std::cerr << fmt::format("[{:>2}/{}] {:<18} {:<8} {} answers, noticed: {}\n", number, rows,
                           row.fault->name, row.pool, row.answers.total(), to_text(row.noticed))
            << std::flush;
}

base::Status write_json(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text << '\n';
  file.close();
  if (!file) return base::Error{base::ErrorCode::kIo, "cannot write " + path, "--json"};
  return {};
}

// Whether every row is what it should be.
base::Result<bool> drill(const DrillOptions& options) {
  if (options.model_path.empty() && options.url.empty()) {
    return base::invalid_argument(
        "--model", "which server? bulkhead drill --model MODEL starts one, --url names one");
  }
  BH_ASSIGN(std::optional<Target> running, running_server(options));
  BH_ASSIGN(const Matrix matrix, Exercise(options, std::move(running), tell).run());
  std::cout << matrix_text(matrix) << std::flush;
  if (!options.json_path.empty()) BH_TRY(write_json(options.json_path, matrix_json(matrix)));
  return passed(matrix);
}

bool is_usage(base::ErrorCode code) {
  return code == base::ErrorCode::kInvalidArgument || code == base::ErrorCode::kNotFound ||
         code == base::ErrorCode::kUnsupported;
}

}  // namespace

int run_drill(const DrillOptions& options) {
  const base::Result<bool> good = drill(options);
  if (good.ok()) return *good ? 0 : 1;
  std::cerr << "error: " << good.error().message << '\n';
  return is_usage(good.error().code) ? 2 : 1;
}

}  // namespace bulkhead::apps
