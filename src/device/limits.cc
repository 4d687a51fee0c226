#include "device/limits.h"

#include <charconv>
#include <fstream>

namespace bulkhead::device {
namespace {

bool parse_number(std::string_view text, uint64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size();
}

void tighten_memory(const std::string& file, CgroupLimits& limits) {
  uint64_t bytes = 0;
  // Version 2 writes "max", version 1 a number near 2^63 where there is no limit.
  if (!parse_number(read_first_line(file), &bytes) || bytes >= (uint64_t{1} << 62)) return;
  if (limits.memory_bytes == 0 || bytes < limits.memory_bytes) limits.memory_bytes = bytes;
}

void tighten_cpus(std::string_view quota_text, std::string_view period_text, CgroupLimits& limits) {
  uint64_t quota = 0;
  uint64_t period = 0;
  if (!parse_number(quota_text, &quota) || !parse_number(period_text, &period)) return;
  if (quota == 0 || period == 0) return;
  const double cpus = static_cast<double>(quota) / static_cast<double>(period);
  if (limits.cpus == 0.0 || cpus < limits.cpus) limits.cpus = cpus;
}

// Calls visit(folder) for root + path and each of its parents down to the root.
template <typename Visit>
void walk_up(const std::string& root, std::string path, Visit visit) {
  while (path.size() > 1) {
    visit(root + path);
    path.erase(path.rfind('/'));
  }
  visit(root);
}

void read_v2(const std::string& root, const std::string& path, CgroupLimits& limits) {
  walk_up(root, path, [&limits](const std::string& folder) {
    tighten_memory(folder + "/memory.max", limits);
    const std::string line = read_first_line(folder + "/cpu.max");
    const size_t space = line.find(' ');
    if (space != std::string::npos) {
      const std::string_view view = line;
      tighten_cpus(view.substr(0, space), view.substr(space + 1), limits);
    }
  });
}

void read_v1(const std::string& root, std::string_view controllers, const std::string& path,
             CgroupLimits& limits) {
  const auto has = [controllers](std::string_view name) {
    return (std::string(",") + std::string(controllers) + ",")
               .find("," + std::string(name) + ",") != std::string::npos;
  };
  if (has("memory")) {
    walk_up(root + "/memory", path, [&limits](const std::string& folder) {
      tighten_memory(folder + "/memory.limit_in_bytes", limits);
    });
  }
  if (has("cpu")) {
    walk_up(root + "/cpu", path, [&limits](const std::string& folder) {
      tighten_cpus(read_first_line(folder + "/cpu.cfs_quota_us"),
                   read_first_line(folder + "/cpu.cfs_period_us"), limits);
    });
  }
}

}  // namespace

std::string read_first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

size_t parse_cache_size(std::string_view text) {
  size_t unit = 1;
  if (text.ends_with('K')) unit = size_t{1} << 10;
  if (text.ends_with('M')) unit = size_t{1} << 20;
  if (unit > 1) text.remove_suffix(1);
  uint64_t number = 0;
  if (!parse_number(text, &number) || number > (uint64_t{1} << 32)) return 0;
  return static_cast<size_t>(number) * unit;
}

CgroupLimits read_cgroup_limits(const std::string& membership_file, const std::string& root) {
  CgroupLimits limits;
  for (const std::string& line : read_lines(membership_file)) {
    // hierarchy:controllers:path
    const size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      read_v2(root, path, limits);
    } else {
      read_v1(root, controllers, path, limits);
    }
  }
  return limits;
}

}  // namespace bulkhead::device
