// What the machine says about itself, read under a given root so that tests can hand in their own
// /proc and /sys.
//
// Threads: plain values; reading from any thread. Invariant: what cannot be read stays at its
// default and is never an error: the findings say what is not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu.h"
#include "device/limits.h"

namespace bulkhead::apps {

struct Topology {
  unsigned cpus = 0;   // online
  unsigned cores = 0;  // physical
  unsigned sockets = 0;
  bool hypervisor = false;  // the processor says that it is a virtual one
  bool amx = false;         // announced tiles with BF16, granted or not
};
Topology parse_cpuinfo(const std::vector<std::string>& lines);

struct MemoryFacts {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
  uint64_t huge_page_bytes = 0;  // of one hugetlb page
  uint64_t huge_pages = 0;       // reserved
  uint64_t huge_pages_free = 0;
};
MemoryFacts parse_meminfo(const std::vector<std::string>& lines);

// "always [madvise] never" -> "madvise"; empty where nothing is chosen.
std::string chosen_mode(std::string_view line);
// "0-3,8,10-11" -> 7.
unsigned count_cpu_list(std::string_view text);
// "0.52 0.61 0.70 1/234 5678" -> 0.52; negative when it is anything else.
double parse_load_average(std::string_view line);

// Soft and hard, as getrlimit gives them; RLIM_INFINITY for none.
struct ResourceLimit {
  uint64_t soft = 0, hard = 0;
};

struct MachineFacts {
  device::CpuFacts cpu;
  std::string kernels;  // what serve would use
  Topology topology;
  unsigned affinity_cpus = 0;
  device::CgroupLimits cgroup;
  MemoryFacts memory;
  std::string huge_page_mode;  // of transparent huge pages; empty: the kernel has none
  unsigned numa_nodes = 0;     // 0: not known
  ResourceLimit open_files;
  ResourceLimit locked_memory;
  std::string clock_source;
  std::string governor;  // of the clock frequency; empty: not ours to choose
  double load_average = -1.0;
  std::vector<std::string> container_signs;
  bool loopback = false;  // a port on 127.0.0.1 can be had
};

struct Peaks {
  unsigned threads = 0;
  double read_gbytes = 0.0;  // per second, of DRAM
  double fma_gflops = 0.0;
};

// The files below `root` ("" for the machine itself).
void read_files(const std::string& root, MachineFacts& facts);
// All of it.
MachineFacts read_machine();
// Half a second of work on every CPU. None without AVX2 or without memory for it.
std::optional<Peaks> measure_peaks(const MachineFacts& facts);

}  // namespace bulkhead::apps
