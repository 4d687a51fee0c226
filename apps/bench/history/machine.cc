#include "apps/bench/history/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace bulkhead::apps {
namespace {

constexpr std::array<std::string_view, 4> kInstructionSets = {"avx2", "avx512f", "avx512_bf16",
                                                              "amx_bf16"};

// What stands behind the colon of the first line that begins so; empty: there is none.
std::string_view first_value(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == line.npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin == line.npos) return {};
    return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
  }
  return {};
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::string_view first = words.substr(0, words.find(' '));
    if (first == word) return true;
    words.remove_prefix(std::min(words.size(), first.size() + 1));
  }
  return false;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

std::string machine_class(std::string_view cpuinfo, int cores, uint64_t memory_bytes) {
  const std::string_view model = first_value(cpuinfo, "model name");
  const std::string_view flags = first_value(cpuinfo, "flags");
  std::string sets;
  for (const std::string_view set : kInstructionSets) {
    if (!has_word(flags, set)) continue;
    if (!sets.empty()) sets += ' ';
    sets += set;
  }
  return fmt::format("{}, {} cores, {:.0f} GiB, {}", model.empty() ? "unknown processor" : model,
                     cores, static_cast<double>(memory_bytes) / 0x1p30, sets);
}

std::string machine_class() {
  std::ifstream file("/proc/cpuinfo");
  const std::string cpuinfo((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  const auto memory_bytes =
      static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) * static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  return machine_class(cpuinfo, usable_cores(), memory_bytes);
}

}  // namespace bulkhead::apps
