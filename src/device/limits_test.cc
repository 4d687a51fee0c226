#include "device/limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace bulkhead::device {
namespace {

namespace fs = std::filesystem;

class Limits : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() / (std::string("bulkhead_limits_") + info->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& relative, const std::string& text) {
    fs::create_directories((root_ / relative).parent_path());
    std::ofstream(root_ / relative) << text;
  }
  CgroupLimits read() {
    return read_cgroup_limits((root_ / "self").string(), (root_ / "cg").string());
  }

  fs::path root_;
};

TEST_F(Limits, VersionTwoTakesTheTightestLimitOnTheWayToTheRoot) {
  write("self", "0::/outer/inner\n");
  write("cg/outer/inner/memory.max", "max\n");
  write("cg/outer/memory.max", "1073741824\n");
  write("cg/outer/inner/cpu.max", "150000 100000\n");
  write("cg/outer/cpu.max", "max 100000\n");
  const CgroupLimits limits = read();
  EXPECT_EQ(limits.memory_bytes, uint64_t{1} << 30);
  EXPECT_DOUBLE_EQ(limits.cpus, 1.5);
}

TEST_F(Limits, VersionOneReadsTheFoldersOfItsControllers) {
  write("self", "5:cpu,cpuacct:/job\n4:memory:/job\n");
  write("cg/memory/job/memory.limit_in_bytes", "536870912\n");
  write("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cg/cpu/job/cpu.cfs_quota_us", "50000\n");
  write("cg/cpu/job/cpu.cfs_period_us", "100000\n");
  write("cg/cpu/cpu.cfs_quota_us", "-1\n");
  write("cg/cpu/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = read();
  EXPECT_EQ(limits.memory_bytes, uint64_t{512} << 20);
  EXPECT_DOUBLE_EQ(limits.cpus, 0.5);
}

TEST_F(Limits, MissingOrStrangeFilesMeanNoLimit) {
  EXPECT_EQ(read().memory_bytes, 0u);
  write("self", "nonsense\n0::/a\n");
  write("cg/a/memory.max", "12x\n");
  write("cg/a/cpu.max", "100000 0\n");
  const CgroupLimits limits = read();
  EXPECT_EQ(limits.memory_bytes, 0u);
  EXPECT_EQ(limits.cpus, 0.0);
}

TEST_F(Limits, CacheSizesAreRead) {
  EXPECT_EQ(parse_cache_size("32K"), 32u << 10);
  EXPECT_EQ(parse_cache_size("32M"), 32u << 20);
  EXPECT_EQ(parse_cache_size("512"), 512u);
  EXPECT_EQ(parse_cache_size(""), 0u);
  EXPECT_EQ(parse_cache_size("many"), 0u);
}

}  // namespace
}  // namespace bulkhead::device
