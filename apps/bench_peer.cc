#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "commands.h"

namespace bulkhead::apps {
namespace {

namespace fs = std::filesystem;

int refuse(const std::string& what, const std::string& cure) {
  std::cerr << "error: " << what << "\n  cure: " << cure << '\n';
  return 2;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

int run_bench_peer(const BenchPeerOptions& options) {
  const fs::path source = options.source_dir;
  const fs::path script = source / "bench" / "peers.py";
  const fs::path python = source / ".venv" / "bin" / "python";
  if (!is_there(script)) {
    return refuse("bench peer runs " + script.string() + ", which is not there",
                  "run it from a build inside a source checkout of Bulkhead");
  }
  if (!is_there(python)) {
    return refuse("bench peer needs the Python environment " + (source / ".venv").string(),
                  "run tools/setup/venv.sh in " + source.string());
  }
  std::vector<std::string> words = {python.string(), script.string()};
  std::error_code ec;
  const fs::path self = fs::read_symlink("/proc/self/exe", ec);
  const auto names_a_binary = [](const std::string& word) {
    return word.rfind("--bulkhead", 0) == 0;
  };
  // The comparison is of this very build unless another is named.
  if (!ec && std::none_of(options.arguments.begin(), options.arguments.end(), names_a_binary)) {
    words.insert(words.end(), {"--bulkhead", self.string()});
  }
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  std::cerr << "error: cannot start " << words[0] << ": "
            << std::error_code(errno, std::generic_category()).message() << '\n';
  return 1;
}

}  // namespace bulkhead::apps
