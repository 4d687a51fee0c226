#include "apps/doctor/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <boost/json.hpp>
#include <functional>

namespace bulkhead::apps {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

// A machine with nothing to complain about.
MachineFacts good_machine() {
  MachineFacts facts;
  facts.cpu.model_name = "Test CPU";
  facts.cpu.logical_cpus = 4;
  facts.cpu.avx2_fma_f16c = true;
  facts.cpu.memory_bytes = 16ull << 30;
  facts.kernels = "gemm avx2";
  facts.topology = {.cpus = 4, .cores = 4, .sockets = 1, .hypervisor = true, .amx = false};
  facts.affinity_cpus = 4;
  facts.memory.total_bytes = 16ull << 30;
  facts.memory.available_bytes = 15ull << 30;
  facts.huge_page_mode = "madvise";
  facts.numa_nodes = 1;
  facts.open_files = {65536, 65536};
  facts.locked_memory = {8u << 20, 8u << 20};
  facts.clock_source = "tsc";
  facts.load_average = 0.1;
  facts.loopback = true;
  return facts;
}

Finding find(const std::vector<Finding>& findings, const std::string& name) {
  for (const Finding& finding : findings) {
    if (finding.name == name) return finding;
  }
  ADD_FAILURE() << "no finding " << name;
  return {};
}

TEST(Diagnosis, AGoodMachineHasNothingToMend) {
  const std::vector<Finding> findings =
      diagnose(good_machine(), Peaks{.threads = 4, .read_gbytes = 40.0, .fma_gflops = 400.0});
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.name << ": " << finding.found;
    EXPECT_EQ(finding.cure, "") << finding.name;
    EXPECT_NE(finding.found, "") << finding.name;
  }
  EXPECT_TRUE(can_serve(findings));
  EXPECT_THAT(find(findings, "memory speed").found, HasSubstr("40.0 GB/s"));
  EXPECT_THAT(findings_text(findings), HasSubstr("This machine can serve.\n"));
}

struct Fault {
  const char* finding;
  Verdict verdict;
  const char* cure;
  std::function<void(MachineFacts&)> make;
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"instructions", Verdict::kCouldBeBetter, "AVX2",
       [](MachineFacts& f) { f.cpu.avx2_fma_f16c = false; }},
      {"AMX tiles", Verdict::kCouldBeBetter, "arch_prctl",
       [](MachineFacts& f) { f.topology.amx = true; }},
      {"usable CPUs", Verdict::kCouldBeBetter, "--cpus",
       [](MachineFacts& f) { f.cgroup.cpus = 1.5; }},
      {"usable CPUs", Verdict::kCouldBeBetter, "taskset -pc 0-3",
       [](MachineFacts& f) { f.affinity_cpus = 2; }},
      {"hyperthreads", Verdict::kCouldBeBetter, "--threads 2",
       [](MachineFacts& f) { f.topology.cores = 2; }},
      {"load", Verdict::kCouldBeBetter, "top", [](MachineFacts& f) { f.load_average = 3.0; }},
      {"memory", Verdict::kProblem, "raise the limit",
       [](MachineFacts& f) { f.memory.available_bytes = 100u << 20; }},
      {"memory", Verdict::kProblem, "raise the limit",
       [](MachineFacts& f) { f.cgroup.memory_bytes = 100u << 20; }},
      {"memory", Verdict::kCouldBeBetter, "raise the limit",
       [](MachineFacts& f) { f.memory.available_bytes = 1u << 30; }},
      {"huge pages", Verdict::kCouldBeBetter, "echo madvise",
       [](MachineFacts& f) { f.huge_page_mode = "never"; }},
      {"hugetlb", Verdict::kCouldBeBetter, "vm.nr_hugepages=1 ",
       [](MachineFacts& f) {
         f.memory.huge_pages = 5;
         f.memory.huge_pages_free = 4;
         f.memory.huge_page_bytes = 2u << 20;
       }},
      {"NUMA nodes", Verdict::kCouldBeBetter, "numactl", [](MachineFacts& f) { f.numa_nodes = 2; }},
      {"open files", Verdict::kCouldBeBetter, "ulimit -n 4096",
       [](MachineFacts& f) { f.open_files = {1024, 4096}; }},
      {"open files", Verdict::kProblem, "ulimit -n",
       [](MachineFacts& f) { f.open_files = {16, RLIM_INFINITY}; }},
      {"clock", Verdict::kCouldBeBetter, "tsc",
       [](MachineFacts& f) { f.clock_source = "acpi_pm"; }},
      {"frequency", Verdict::kCouldBeBetter, "performance",
       [](MachineFacts& f) { f.governor = "powersave"; }},
      {"loopback", Verdict::kProblem, "lo up", [](MachineFacts& f) { f.loopback = false; }},
  };
  return all;
}

TEST(Diagnosis, EveryFaultIsFoundAloneAndHasACure) {
  for (const Fault& fault : faults()) {
    MachineFacts facts = good_machine();
    fault.make(facts);
    const std::vector<Finding> findings = diagnose(facts, std::nullopt);
    const Finding finding = find(findings, fault.finding);
    EXPECT_EQ(finding.verdict, fault.verdict) << fault.finding << ": " << finding.found;
    EXPECT_THAT(finding.cure, HasSubstr(fault.cure)) << fault.finding;
    EXPECT_EQ(can_serve(findings), fault.verdict != Verdict::kProblem) << fault.finding;
    for (const Finding& other : findings) {
      if (other.name != fault.finding) {
        EXPECT_EQ(other.verdict, Verdict::kOk) << fault.finding << " also shows in " << other.name;
      }
    }
  }
}

TEST(Diagnosis, GrantedTilesAreGood) {
  MachineFacts facts = good_machine();
  facts.topology.amx = true;
  facts.cpu.avx512 = true;
  facts.cpu.amx_bf16 = true;
  EXPECT_EQ(find(diagnose(facts, std::nullopt), "AMX tiles").verdict, Verdict::kOk);
}

TEST(Diagnosis, TheTextNamesVerdictAndCure) {
  MachineFacts facts = good_machine();
  facts.huge_page_mode = "never";
  const std::string text = findings_text(diagnose(facts, std::nullopt));
  EXPECT_THAT(text, HasSubstr("could be better  huge pages"));
  EXPECT_THAT(text, HasSubstr("-> echo madvise"));
  EXPECT_THAT(text, HasSubstr("This machine can serve; 1 thing could be better.\n"));
  facts.loopback = false;
  EXPECT_THAT(findings_text(diagnose(facts, std::nullopt)), HasSubstr("cannot serve"));
}

TEST(Diagnosis, TheJsonSaysTheSame) {
  MachineFacts facts = good_machine();
  facts.loopback = false;
  facts.numa_nodes = 2;
  const std::vector<Finding> findings = diagnose(facts, std::nullopt);
  const json::value value = json::parse(findings_json(findings));
  EXPECT_FALSE(value.at("can_serve").as_bool());
  const json::array& list = value.at("findings").as_array();
  ASSERT_EQ(list.size(), findings.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].at("name").as_string(), findings[i].name);
    EXPECT_EQ(list[i].at("cure").is_null(), findings[i].verdict == Verdict::kOk);
    if (findings[i].name == "loopback") {
      EXPECT_EQ(list[i].at("verdict").as_string(), "problem");
    }
    if (findings[i].name == "NUMA nodes") {
      EXPECT_EQ(list[i].at("verdict").as_string(), "could_be_better");
    }
  }
}

}  // namespace
}  // namespace bulkhead::apps
