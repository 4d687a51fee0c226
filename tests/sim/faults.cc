#include "sim/faults.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/rng.h"

namespace bulkhead::sim {
namespace {

constexpr std::array<std::string_view, kFaultKinds> kNames = {
    "drop",
    "duplicate",
    "replay",
    "reorder",
    "late",
    "stall",
    "truncate",
    "corrupt",
    "partition",
    "break",
    "swap-payload",
    "swap-layers",
    "flip-payload",
    "crash-prefill",
    "crash-decode",
    "crash-gateway",
    "pause-prefill",
    "pause-decode",
    "pause-gateway",
    "stale-mapping",
    "overwritten-entry",
    "out-of-range-id",
    "wrong-order",
    "permuted-table",
    "double-allocation",
    "missed-reference",
    "tag-flip",
    "wrong-label",
    "page-flip",
};

uint64_t stream_of(FaultId id) { return (uint64_t{static_cast<uint8_t>(id.kind)} << 8) + 0x5f; }

}  // namespace

std::string_view to_string(FaultKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string describe(const Fault& fault) {
  return fmt::format("{}#{} at {:.3f} s, {}", to_string(fault.id.kind), fault.id.number,
                     base::to_seconds(fault.at), fault.where);
}

bool FaultLedger::strikes(FaultKind kind, std::string_view where) {
  const auto index = static_cast<size_t>(kind);
  if (stopped_ || rates_[index] <= 0) return false;
  const FaultId id{kind, ++opportunities_[index]};
  if (base::random_unit(seed_, stream_of(id), id.number) >= rates_[index]) return false;
  if (only_ && !only_->contains(id)) return false;
  struck_.push_back({id, clock_.now(), std::string(where)});
  if (on_fault_) on_fault_(struck_.back());
  return true;
}

uint64_t FaultLedger::bits(uint64_t number) const {
  BH_CHECK(!struck_.empty(), "bits of a fault that struck");
  const FaultId id = struck_.back().id;
  return base::random_bits(seed_, stream_of(id) + 1 + number, id.number);
}

}  // namespace bulkhead::sim
