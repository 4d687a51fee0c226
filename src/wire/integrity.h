// What a server's page pools say about the integrity of their pages, and how a server under test is
// told to damage them.
//
// Threads: any thread. Invariants: nothing here names a prompt, a key or a tenant; pages and
// requests are numbers of the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace bulkhead::wire {

// How strictly pages are watched; greater is stricter.
enum class IntegrityMode : uint8_t { kOff, kObserve, kAbort };
inline std::string_view to_string(IntegrityMode mode) {
  constexpr std::string_view kNames[] = {"off", "observe", "abort"};
  return kNames[static_cast<size_t>(mode)];
}

// One thing that was wrong.
struct IntegrityEvent {
  uint64_t number = 0;
  std::string_view kind;
  std::string_view phase;
  uint64_t request = 0;  // of the engine's own count; 0: none
  int64_t entry = -1;
  int32_t page = -1;
  uint64_t found_tag = 0;
  uint32_t found_label = 0;
  int32_t found_place = -1;  // of the sequence's text; -1: none
  int32_t expected_page = -1;
  uint64_t expected_tag = 0;
  uint32_t expected_label = 0;
  std::vector<std::string> history;  // "allocated 0x7...", oldest first
};

struct IntegrityPool {
  std::string name;  // "shared", "prefill", "decode"
  IntegrityMode mode = IntegrityMode::kOff;
  uint64_t checks = 0;
  uint64_t pages_checked = 0;
  uint64_t pages_scrubbed = 0;
  std::vector<std::pair<std::string_view, uint64_t>> mismatches;  // by kind, all kinds
  std::vector<int32_t> quarantined;
  std::vector<IntegrityEvent> events;  // the last, oldest first
};

struct InjectedFault {
  std::string_view fault;
  std::string pool;
  uint64_t request = 0;
  int32_t page = -1;
};

struct InjectedFaults {
  bool enabled = false;
  uint64_t waiting = 0;  // ordered, without a victim so far
  std::vector<InjectedFault> done;
};

// A process whose pages are its own, and which tells of them itself.
struct IntegrityWorker {
  std::string name;      // "decode-0"
  bool present = false;  // it is there now
  std::string http;      // where it answers, "127.0.0.1:7101"; empty: nowhere, or not known
};

class IntegrityPort {
 public:
  virtual ~IntegrityPort() = default;
  // Of the pool that is watched least.
  virtual IntegrityMode mode() const = 0;
  virtual std::vector<IntegrityPool> report() const = 0;
  virtual InjectedFaults injected() const = 0;
  // `pool` may be empty: the pool that decode reads. Errors: kInvalidArgument for a name that is
  // none, kUnsupported where the server was not started to be damaged.
  virtual base::Status inject(std::string_view fault, std::string_view pool) = 0;
};

}  // namespace bulkhead::wire
