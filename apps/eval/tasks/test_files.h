// A folder of data for a test's own sets.
//
// Threads: one test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace bulkhead::apps::eval {

class DataFolder {
 public:
  DataFolder() {
    static int made = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("bulkhead-eval-" + std::to_string(getpid()) + "-" + std::to_string(made++));
  }
  ~DataFolder() { std::filesystem::remove_all(path_); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace bulkhead::apps::eval
