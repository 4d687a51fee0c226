// Which faults strike, and what became of them.
//
// Threads: one. Invariants: whether the n-th opportunity of a kind is taken is a function of (seed,
// kind, n) alone, so that leaving one fault out leaves the draws of all others as they were; every
// fault that struck is on record.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace bulkhead::sim {

enum class FaultKind : uint8_t {
  // Frames.
  kDrop,
  kDuplicate,  // once more, soon
  kReplay,     // once more, when its transfer is long over
  kReorder,    // a little late, others pass it
  kLate,       // so late that whoever wanted it has given up
  kStall,      // it and everything behind it is late
  kTruncate,
  kCorrupt,      // one bit
  kPartition,    // nothing passes in this direction for a while
  kBreak,        // the connection closes
  kSwapPayload,  // a chunk with the bytes of another, under a right checksum
  kSwapLayers,   // a chunk with its halves exchanged, under a right checksum
  kFlipPayload,  // a chunk with one bit changed, under a right checksum
  // Processes.
  kCrashPrefill,
  kCrashDecode,
  kCrashGateway,
  kPausePrefill,
  kPauseDecode,
  kPauseGateway,
  // Pages, through the seam of kv/integrity/injector.h.
  kStaleMapping,
  kOverwrittenEntry,
  kOutOfRangeId,
  kWrongOrder,
  kPermutedTable,
  kDoubleAllocation,
  kMissedReference,
  kTagFlip,
  kWrongLabel,
  kPageFlip,
};
constexpr size_t kFaultKinds = static_cast<size_t>(FaultKind::kPageFlip) + 1;
inline bool is_of_memory(FaultKind kind) { return kind >= FaultKind::kStaleMapping; }
inline bool is_of_processes(FaultKind kind) {
  return kind >= FaultKind::kCrashPrefill && !is_of_memory(kind);
}
// Noticed before a token gets out. A bit that flips in a page at rest is seen by the scrubber when
// it comes by.
inline bool is_promised(FaultKind kind) { return kind != FaultKind::kPageFlip; }
// What may make a page, or what is known of it, wrong: the cause of a kv_integrity.
inline bool damages_pages(FaultKind kind) {
  return is_of_memory(kind) || kind == FaultKind::kSwapPayload || kind == FaultKind::kSwapLayers ||
         kind == FaultKind::kFlipPayload;
}
std::string_view to_string(FaultKind kind);

using FaultRates = std::array<double, kFaultKinds>;

// One opportunity.
struct FaultId {
  FaultKind kind = FaultKind::kDrop;
  uint64_t number = 0;  // counts the opportunities of its kind from 1
  auto operator<=>(const FaultId&) const = default;
};

struct Fault {
  FaultId id;
  base::Nanoseconds at{0};
  std::string where;
};
std::string describe(const Fault& fault);

class FaultLedger {
 public:
  // With `only`, nothing else strikes.
  FaultLedger(uint64_t seed, const FaultRates& rates, std::optional<std::set<FaultId>> only,
              const base::Clock& clock, std::function<void(const Fault&)> on_fault = nullptr)
      : seed_(seed),
        rates_(rates),
        only_(std::move(only)),
        clock_(clock),
        on_fault_(std::move(on_fault)) {}

  bool possible(FaultKind kind) const { return rates_[static_cast<size_t>(kind)] > 0; }
  // Whether this opportunity is taken; it is on record then.
  bool strikes(FaultKind kind, std::string_view where);
  // Random bits that belong to the fault that struck last.
  uint64_t bits(uint64_t number) const;
  // Nothing strikes from here on.
  void stop() { stopped_ = true; }

  const std::vector<Fault>& struck() const { return struck_; }

 private:
  const uint64_t seed_;
  const FaultRates rates_;
  const std::optional<std::set<FaultId>> only_;
  const base::Clock& clock_;
  const std::function<void(const Fault&)> on_fault_;
  std::array<uint64_t, kFaultKinds> opportunities_{};
  std::vector<Fault> struck_;
  bool stopped_ = false;
};

}  // namespace bulkhead::sim
