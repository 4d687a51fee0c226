#include "apps/doctor/machine_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace bulkhead::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// A made-up /proc and /sys, gone after the test.
class Root {
 public:
  Root() : path_(fs::temp_directory_path() / ("bulkhead-doctor-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Root() { fs::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((path_ / path).parent_path());
    std::ofstream(path_ / path) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(Cpuinfo, CoresAndSocketsAreCountedOnce) {
  const Topology t = parse_cpuinfo({"processor\t: 0", "physical id\t: 0", "core id\t\t: 0",
                                    "flags\t\t: fpu avx2", "", "processor\t: 1", "physical id\t: 0",
                                    "core id\t\t: 0", "flags\t\t: fpu avx2", "", "processor\t: 2",
                                    "physical id\t: 1", "core id\t\t: 0", "flags\t\t: fpu avx2", "",
                                    "processor\t: 3", "physical id\t: 1", "core id\t\t: 1",
                                    "flags\t\t: fpu hypervisor amx_bf16 amx_tile"});
  EXPECT_EQ(t.cpus, 4u);
  EXPECT_EQ(t.cores, 3u);
  EXPECT_EQ(t.sockets, 2u);
  EXPECT_TRUE(t.hypervisor);
  EXPECT_TRUE(t.amx);
}

TEST(Cpuinfo, WithoutTopologyEveryCpuIsACore) {
  const Topology t = parse_cpuinfo({"processor : 0", "processor : 1", "flags : amx_bf16x"});
  EXPECT_EQ(t.cpus, 2u);
  EXPECT_EQ(t.cores, 2u);
  EXPECT_EQ(t.sockets, 1u);
  EXPECT_FALSE(t.amx);
  EXPECT_EQ(parse_cpuinfo({}).cpus, 0u);
}

TEST(Meminfo, KibibytesAndPageCountsAreRead) {
  const MemoryFacts m = parse_meminfo({"MemTotal:       24689764 kB", "MemFree:  1 kB",
                                       "MemAvailable:   23068672 kB", "HugePages_Total:      12",
                                       "HugePages_Free:        5", "Hugepagesize:       2048 kB"});
  EXPECT_EQ(m.total_bytes, 24689764ull << 10);
  EXPECT_EQ(m.available_bytes, 22ull << 30);
  EXPECT_EQ(m.huge_pages, 12u);
  EXPECT_EQ(m.huge_pages_free, 5u);
  EXPECT_EQ(m.huge_page_bytes, 2u << 20);
  EXPECT_EQ(parse_meminfo({"MemTotal: many", "MemAvailable"}).total_bytes, 0u);
}

TEST(SmallTexts, ModesListsAndLoads) {
  EXPECT_EQ(chosen_mode("always [madvise] never"), "madvise");
  EXPECT_EQ(chosen_mode("always madvise never"), "");
  EXPECT_EQ(chosen_mode("]["), "");
  EXPECT_EQ(count_cpu_list("0-3,8,10-11"), 7u);
  EXPECT_EQ(count_cpu_list("0"), 1u);
  EXPECT_EQ(count_cpu_list(""), 0u);
  EXPECT_EQ(count_cpu_list("3-1"), 0u);
  EXPECT_DOUBLE_EQ(parse_load_average("0.52 0.61 0.70 1/234 5678"), 0.52);
  EXPECT_LT(parse_load_average("busy"), 0.0);
}

TEST(Files, AWholeMachineIsReadFromItsRoot) {
  const Root root;
  root.write("proc/cpuinfo", "processor : 0\ncore id : 0\nprocessor : 1\ncore id : 0\n");
  root.write("proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 2048 kB\n");
  root.write("proc/loadavg", "1.25 1 1 1/2 3\n");
  root.write("proc/self/cgroup", "0::/box\n");
  root.write("proc/1/cgroup", "0::/docker/0123abcd\n");
  root.write("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/box/memory.max", "1048576\n");
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  root.write("sys/devices/system/node/node0/cpulist", "0\n");
  root.write("sys/devices/system/node/node1/cpulist", "1\n");
  root.write("sys/devices/system/node/online", "0-1\n");
  root.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  root.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  root.write(".dockerenv", "");
  MachineFacts facts;
  read_files(root.path(), facts);
  EXPECT_EQ(facts.topology.cpus, 2u);
  EXPECT_EQ(facts.topology.cores, 1u);
  EXPECT_EQ(facts.memory.available_bytes, 2u << 20);
  EXPECT_DOUBLE_EQ(facts.load_average, 1.25);
  EXPECT_DOUBLE_EQ(facts.cgroup.cpus, 1.5);
  EXPECT_EQ(facts.cgroup.memory_bytes, 1u << 20);
  EXPECT_EQ(facts.huge_page_mode, "never");
  EXPECT_EQ(facts.numa_nodes, 2u);
  EXPECT_EQ(facts.clock_source, "hpet");
  EXPECT_EQ(facts.governor, "powersave");
  EXPECT_THAT(facts.container_signs, ElementsAre("/.dockerenv", HasSubstr("docker/0123abcd")));
}

TEST(Files, AnEmptyRootIsNoError) {
  const Root root;
  MachineFacts facts;
  read_files(root.path(), facts);
  EXPECT_EQ(facts.topology.cpus, 0u);
  EXPECT_EQ(facts.numa_nodes, 0u);
  EXPECT_LT(facts.load_average, 0.0);
  EXPECT_TRUE(facts.container_signs.empty());
}

}  // namespace
}  // namespace bulkhead::apps
