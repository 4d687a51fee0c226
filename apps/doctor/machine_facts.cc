#include "apps/doctor/machine_facts.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "device/buffer.h"
#include "device/thread_pool.h"
#include "kernels/bench/peaks.h"
#include "kernels/kernel_set.h"

namespace bulkhead::apps {
namespace {

namespace fs = std::filesystem;

// "model name\t: AMD" -> {"model name", "AMD"}.
std::pair<std::string_view, std::string_view> split_at_colon(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return {line, {}};
  std::string_view key = line.substr(0, colon);
  std::string_view value = line.substr(colon + 1);
  while (!key.empty() && (key.back() == ' ' || key.back() == '\t')) key.remove_suffix(1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  return {key, value};
}

// The number that `text` begins with.
uint64_t leading_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end != text.data() ? number : 0;
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || text[at - 1] == ' ';
    const size_t after = at + word.size();
    if (begins && (after == text.size() || text[after] == ' ')) return true;
  }
  return false;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

unsigned count_nodes(const std::string& folder) {
  unsigned nodes = 0;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(folder, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("node", 0) == 0 && name.size() > 4 &&
        name.find_first_not_of("0123456789", 4) == std::string::npos) {
      ++nodes;
    }
  }
  return nodes;
}

std::vector<std::string> container_signs(const std::string& root) {
  std::vector<std::string> signs;
  for (const char* path : {"/.dockerenv", "/run/.containerenv"}) {
    if (exists(root + path)) signs.emplace_back(path);
  }
  for (const std::string& line : device::read_lines(root + "/proc/1/cgroup")) {
    for (const char* word : {"docker", "kubepods", "containerd", "lxc", "libpod"}) {
      if (line.find(word) != std::string::npos) signs.push_back("control group of " + line);
    }
    if (!signs.empty()) break;
  }
  return signs;
}

ResourceLimit resource_limit(__rlimit_resource which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0) return {};
  return {limit.rlim_cur, limit.rlim_max};
}

unsigned affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

bool can_listen_on_loopback() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool can = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                   ::listen(fd, 1) == 0;
  ::close(fd);
  return can;
}

}  // namespace

Topology parse_cpuinfo(const std::vector<std::string>& lines) {
  Topology topology;
  std::set<std::string> sockets;
  std::set<std::string> cores;
  std::string socket = "0";
  for (const std::string& line : lines) {
    const auto [key, value] = split_at_colon(line);
    if (key == "processor") {
      ++topology.cpus;
    } else if (key == "physical id") {
      socket = value;
      sockets.insert(socket);
    } else if (key == "core id") {
      cores.insert(socket + "/" + std::string(value));
    } else if (key == "flags") {
      topology.hypervisor = has_word(value, "hypervisor");
      topology.amx = has_word(value, "amx_bf16") && has_word(value, "amx_tile");
    }
  }
  topology.sockets = std::max<unsigned>(1, static_cast<unsigned>(sockets.size()));
  topology.cores = cores.empty() ? topology.cpus : static_cast<unsigned>(cores.size());
  return topology;
}

MemoryFacts parse_meminfo(const std::vector<std::string>& lines) {
  MemoryFacts facts;
  for (const std::string& line : lines) {
    const auto [key, value] = split_at_colon(line);
    const uint64_t number = leading_number(value);
    if (key == "MemTotal") facts.total_bytes = number << 10;
    if (key == "MemAvailable") facts.available_bytes = number << 10;
    if (key == "Hugepagesize") facts.huge_page_bytes = number << 10;
    if (key == "HugePages_Total") facts.huge_pages = number;
    if (key == "HugePages_Free") facts.huge_pages_free = number;
  }
  return facts;
}

std::string chosen_mode(std::string_view line) {
  const size_t open = line.find('[');
  const size_t close = line.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
  return std::string(line.substr(open + 1, close - open - 1));
}

unsigned count_cpu_list(std::string_view text) {
  uint64_t count = 0;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view range = text.substr(0, comma);
    const size_t dash = range.find('-');
    const uint64_t first = leading_number(range);
    const uint64_t last =
        dash == std::string_view::npos ? first : leading_number(range.substr(dash + 1));
    if (!range.empty() && last >= first && last < 65536) count += last - first + 1;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return static_cast<unsigned>(count);
}

double parse_load_average(std::string_view line) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  return error == std::errc{} && end != line.data() && value >= 0.0 ? value : -1.0;
}

void read_files(const std::string& root, MachineFacts& facts) {
  facts.topology = parse_cpuinfo(device::read_lines(root + "/proc/cpuinfo"));
  const unsigned online =
      count_cpu_list(device::read_first_line(root + "/sys/devices/system/cpu/online"));
  if (facts.topology.cpus == 0) facts.topology.cpus = online;
  facts.memory = parse_meminfo(device::read_lines(root + "/proc/meminfo"));
  facts.cgroup = device::read_cgroup_limits(root + "/proc/self/cgroup", root + "/sys/fs/cgroup");
  facts.huge_page_mode =
      chosen_mode(device::read_first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.numa_nodes = count_nodes(root + "/sys/devices/system/node");
  facts.clock_source = device::read_first_line(
      root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  facts.governor =
      device::read_first_line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  facts.load_average = parse_load_average(device::read_first_line(root + "/proc/loadavg"));
  facts.container_signs = container_signs(root);
}

MachineFacts read_machine() {
  MachineFacts facts;
  facts.cpu = device::detect_cpu();
  const base::Result<kernels::KernelSet> set =
      kernels::select_kernels(facts.cpu, device::best_isa(facts.cpu));
  facts.kernels = set.ok() ? set->description : set.error().message;
  facts.affinity_cpus = affinity_cpus();
  facts.open_files = resource_limit(RLIMIT_NOFILE);
  facts.locked_memory = resource_limit(RLIMIT_MEMLOCK);
  facts.loopback = can_listen_on_loopback();
  read_files("", facts);
  return facts;
}

std::optional<Peaks> measure_peaks(const MachineFacts& facts) {
  constexpr int kSamples = 7;
  constexpr size_t kBytesMin = size_t{256} << 20;
  if (!device::available(facts.cpu, device::Isa::kAvx2)) return std::nullopt;
  // Several times the last-level cache, or the reads do not come from DRAM.
  const size_t bytes = std::max(kBytesMin, 4 * facts.cpu.l3_bytes);
  if (facts.memory.available_bytes < 2 * bytes) return std::nullopt;
  base::Result<device::Buffer> memory = device::Buffer::allocate(bytes);
  if (!memory.ok()) return std::nullopt;
  const kernels::VectorOps& ops =
      device::available(facts.cpu, device::Isa::kAvx512) ? kernels::kAvx512Ops : kernels::kAvx2Ops;
  Peaks peaks;
  peaks.threads = facts.cpu.logical_cpus;
  device::ThreadPool pool({.threads = peaks.threads, .scratch_bytes = 4096});
  std::vector<double> read, fma;
  for (int sample = 0; sample < kSamples; ++sample) {
    read.push_back(kernels::read_rate(ops, memory->as<const float>(), pool));
    fma.push_back(kernels::fma_rate(ops, pool));
  }
  peaks.read_gbytes = kernels::spread_of(read).median / 1e9;
  peaks.fma_gflops = kernels::spread_of(fma).median / 1e9;
  return peaks;
}

}  // namespace bulkhead::apps
