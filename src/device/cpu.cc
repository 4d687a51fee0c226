#include "device/cpu.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "device/limits.h"

namespace bulkhead::device {
namespace {

struct NamedIsa {
  Isa isa;
  std::string_view name;
};
constexpr std::array<NamedIsa, 4> kIsas = {
    {{Isa::kRef, "ref"}, {Isa::kAvx2, "avx2"}, {Isa::kAvx512, "avx512"}, {Isa::kAmx, "amx"}}};

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool bit(uint32_t word, unsigned index) { return ((word >> index) & 1u) != 0; }

// The register state the operating system saves and restores (XCR0), or 0 without XSAVE.
uint64_t enabled_register_state() {
  constexpr unsigned kOsxsave = 27;
  if (!bit(cpuid(1, 0).ecx, kOsxsave)) return 0;
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux grants the 8 KiB of tile data per process, on demand.
bool request_amx_permission() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtiledata = 18;
  return ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

bool is_amd() {
  const Registers vendor = cpuid(0, 0);
  constexpr uint32_t kAuth = 0x68747541;  // the first letters of AuthenticAMD, of HygonGenuine
  constexpr uint32_t kHygo = 0x6f677948;
  return vendor.ebx == kAuth || vendor.ebx == kHygo;
}

void detect_features(CpuFacts& facts) {
  constexpr uint64_t kYmmState = 0x6;
  constexpr uint64_t kZmmState = 0xe6;
  constexpr uint64_t kTileState = 0x60000;
  const uint64_t state = enabled_register_state();
  const Registers basic = cpuid(1, 0);
  const Registers extended = cpuid(7, 0);
  const Registers extended1 = cpuid(7, 1);
  const bool ymm = (state & kYmmState) == kYmmState;
  const bool zmm = (state & kZmmState) == kZmmState;
  const bool tiles = (state & kTileState) == kTileState;
  facts.avx2_fma_f16c = ymm && bit(basic.ecx, 12) && bit(basic.ecx, 29) && bit(extended.ebx, 5);
  facts.avx512 = facts.avx2_fma_f16c && zmm && bit(extended.ebx, 16) && bit(extended.ebx, 17) &&
                 bit(extended.ebx, 30) && bit(extended.ebx, 31);
  facts.avx512_bf16 = facts.avx512 && bit(extended1.eax, 5);
  facts.avx512_vbmi = facts.avx512 && bit(extended.ecx, 1) && bit(extended.ecx, 11);
  facts.fast_subnormals = is_amd();
  facts.amx_bf16 = facts.avx512_vbmi && tiles && bit(extended.edx, 24) && bit(extended.edx, 22) &&
                   request_amx_permission();
}

unsigned affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

std::string model_name() {
  for (const std::string& line : read_lines("/proc/cpuinfo")) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "unknown";
}

void detect_caches(CpuFacts& facts) {
  for (int index = 0; index < 8; ++index) {
    const std::string base = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string level = read_first_line(base + "level");
    if (level.empty()) break;
    const size_t bytes = parse_cache_size(read_first_line(base + "size"));
    const bool instructions = read_first_line(base + "type") == "Instruction";
    if (level == "1" && !instructions) facts.l1d_bytes = bytes;
    if (level == "2") facts.l2_bytes = bytes;
    if (level == "3") facts.l3_bytes = bytes;
  }
}

uint64_t physical_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

bool huge_pages_on_request() {
  const std::string line = read_first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  return line.find("[always]") != std::string::npos || line.find("[madvise]") != std::string::npos;
}

}  // namespace

std::string_view to_string(Isa isa) {
  for (const NamedIsa& entry : kIsas) {
    if (entry.isa == isa) return entry.name;
  }
  return "unknown";
}

base::Result<Isa> parse_isa(std::string_view name) {
  for (const NamedIsa& entry : kIsas) {
    if (entry.name == name) return entry.isa;
  }
  return base::invalid_argument(
      "isa", fmt::format("unknown instruction set '{}': use ref, avx2, avx512 or amx",
                         name.substr(0, 32)));
}

CpuFacts detect_cpu() {
  CpuFacts facts;
  facts.model_name = model_name();
  detect_features(facts);
  detect_caches(facts);
  const CgroupLimits limits = read_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup");
  facts.logical_cpus = affinity_cpus();
  if (limits.cpus > 0.0) {
    // A fractional quota is rounded up: 1.5 CPUs keep two threads busy three quarters of the time.
    const double quota = std::min(limits.cpus, static_cast<double>(facts.logical_cpus));
    const auto whole = static_cast<unsigned>(quota);
    facts.logical_cpus = std::max(1u, static_cast<double>(whole) < quota ? whole + 1 : whole);
  }
  facts.memory_bytes = physical_memory();
  if (limits.memory_bytes > 0 && limits.memory_bytes < facts.memory_bytes) {
    facts.memory_bytes = limits.memory_bytes;
  }
  facts.transparent_huge_pages = huge_pages_on_request();
  return facts;
}

bool available(const CpuFacts& cpu, Isa isa) {
  switch (isa) {
    case Isa::kRef:
      return true;
    case Isa::kAvx2:
      return cpu.avx2_fma_f16c;
    case Isa::kAvx512:
      return cpu.avx512;
    case Isa::kAmx:
      return cpu.avx512 && cpu.amx_bf16;
  }
  return false;
}

Isa best_isa(const CpuFacts& cpu) {
  for (const Isa isa : {Isa::kAmx, Isa::kAvx512, Isa::kAvx2}) {
    if (available(cpu, isa)) return isa;
  }
  return Isa::kRef;
}

}  // namespace bulkhead::device
