// What /proc and the control groups say about this process, read from given paths so that tests can
// hand in their own.
//
// Threads: any. Invariant: a missing or unreadable file means "no limit", never an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bulkhead::device {

// The first line of a file without its end of line; empty when it cannot be read.
std::string read_first_line(const std::string& path);
std::vector<std::string> read_lines(const std::string& path);

// "32K", "1024K", "32M" as /sys writes cache sizes; 0 when it is anything else.
size_t parse_cache_size(std::string_view text);

struct CgroupLimits {
  uint64_t memory_bytes = 0;  // 0: no limit
  double cpus = 0.0;          // 0: no limit
};

// The tightest limit on the way from this process's group to the root, version 2 or 1.
CgroupLimits read_cgroup_limits(const std::string& membership_file, const std::string& root);

}  // namespace bulkhead::device
