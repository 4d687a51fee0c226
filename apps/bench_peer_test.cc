#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/commands.h"

namespace bulkhead::apps {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class BenchPeer : public ::testing::Test {
 protected:
  BenchPeer() : source_(fs::temp_directory_path() / ("bulkhead-peer-" + std::to_string(getpid()))) {
    fs::create_directories(source_);
  }
  ~BenchPeer() override { fs::remove_all(source_); }

  void touch(const fs::path& path) const {
    fs::create_directories((source_ / path).parent_path());
    std::ofstream(source_ / path) << "";
  }
  // Standard error and exit code of a call that comes back.
  std::pair<int, std::string> run() const {
    BenchPeerOptions options;
    options.source_dir = source_.string();
    ::testing::internal::CaptureStderr();
    const int code = run_bench_peer(options);
    return {code, ::testing::internal::GetCapturedStderr()};
  }

  fs::path source_;
};

TEST_F(BenchPeer, OutsideASourceCheckoutTheCureIsNamed) {
  const auto [code, text] = run();
  EXPECT_EQ(code, 2);
  EXPECT_THAT(text, HasSubstr("bench/peers.py"));
  EXPECT_THAT(text, HasSubstr("source checkout"));
}

TEST_F(BenchPeer, WithoutThePythonEnvironmentTheCureIsNamed) {
  touch("bench/peers.py");
  const auto [code, text] = run();
  EXPECT_EQ(code, 2);
  EXPECT_THAT(text, HasSubstr("tools/setup/venv.sh"));
}

TEST_F(BenchPeer, APythonThatCannotBeStartedIsAFailure) {
  touch("bench/peers.py");
  touch(".venv/bin/python");  // not executable
  const auto [code, text] = run();
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr("cannot start"));
}

}  // namespace
}  // namespace bulkhead::apps
