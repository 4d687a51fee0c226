#include "sim/swarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/rng.h"

namespace bulkhead::sim {
namespace {

constexpr uint64_t kStream = 0x5a;

int32_t between(base::Rng& rng, int32_t low, int32_t high) {
  return low + static_cast<int32_t>(rng.below(static_cast<uint64_t>(high - low) + 1));
}

bool coin(base::Rng& rng) { return rng.below(2) == 0; }

double share(base::Rng& rng, double most) { return coin(rng) ? rng.unit() * most : 0.0; }

void draw_requests(base::Rng& rng, SwarmConfig& config) {
  config.concurrency = static_cast<uint32_t>(between(rng, 1, 24));
  config.tenants = static_cast<uint32_t>(between(rng, 1, 4));
  config.families = static_cast<uint32_t>(between(rng, 1, 4));
  const int32_t least = config.placement == Placement::kShared
                            ? config.pages
                            : std::min(config.pages, config.prefill_pages);
  config.prompt_pages = std::clamp(least - 1, 1, between(rng, 1, 5));
  // Half of the time answers are what fills the pool, and somebody has to give way.
  config.answer_max = coin(rng) ? between(rng, 1, 12) : between(rng, 20, 120);
  config.cancelled = share(rng, 0.5);
  config.deadlines = share(rng, 0.3);
  config.retried = share(rng, 1.0);
  config.followed = share(rng, 0.3);
  config.scored = share(rng, 0.3);
  config.sampled = share(rng, 0.6);
  config.opted_out = share(rng, 0.3);
  config.flushes = share(rng, 0.02);
}

// How often a frame, or a step of a process, meets the fault where it is on at all.
double rate_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kStaleMapping:
    case FaultKind::kOverwrittenEntry:
    case FaultKind::kOutOfRangeId:
    case FaultKind::kWrongOrder:
    case FaultKind::kPermutedTable:
    case FaultKind::kDoubleAllocation:
    case FaultKind::kMissedReference:
    case FaultKind::kTagFlip:
    case FaultKind::kWrongLabel:
    case FaultKind::kPageFlip:
    case FaultKind::kPartition:
    case FaultKind::kBreak:
    case FaultKind::kStall:
      return 0.001;
    case FaultKind::kCrashPrefill:
    case FaultKind::kCrashDecode:
    case FaultKind::kPausePrefill:
    case FaultKind::kPauseDecode:
      return 0.0005;
    case FaultKind::kCrashGateway:
    case FaultKind::kPauseGateway:
      return 0.0006;
    default:
      return 0.005;
  }
}

void draw_faults(base::Rng& rng, SwarmConfig& config) {
  // In one run out of three nothing goes wrong at all.
  const bool none = rng.below(3) == 0;
  for (size_t i = 0; i < kFaultKinds; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    const bool on = coin(rng) && !none;
    const double rate = rate_of(kind) * (0.2 + 1.8 * rng.unit());
    // One process has no network, and only one way to crash.
    bool has_it = config.placement == Placement::kRemote || kind == FaultKind::kCrashGateway;
    // What nobody watches over is not damaged; a flipped bit is seen by the scrubber, in time or
    // not.
    if (is_of_memory(kind)) {
      has_it = config.integrity == kv::integrity::Mode::kAbort && is_promised(kind);
    }
    config.rates[i] = on && has_it ? rate : 0.0;
  }
}

}  // namespace

std::string_view to_string(Placement placement) {
  static constexpr std::array<std::string_view, 3> kNames = {"shared", "split", "remote"};
  return kNames[static_cast<size_t>(placement)];
}

SwarmConfig draw_config(uint64_t seed) {
  base::Rng rng(seed, kStream);
  SwarmConfig config;
  config.seed = seed;
  config.placement = static_cast<Placement>(rng.below(3));
  // Small pools more often than large ones: pages come back at once.
  config.pages = 4 + static_cast<int32_t>(60.0 * rng.unit() * rng.unit());
  config.prefill_pages = 4 + static_cast<int32_t>(60.0 * rng.unit() * rng.unit());
  config.layers = between(rng, 1, 2);
  config.integrity = static_cast<kv::integrity::Mode>(rng.below(3));
  if (coin(rng)) config.integrity = kv::integrity::Mode::kAbort;
  config.prefix_cache = coin(rng);
  config.key_bits = coin(rng) ? 256 : between(rng, 1, 8);
  config.chunk_tokens = between(rng, 1, 48);
  config.link_pages = between(rng, 1, 6);
  config.running_max = static_cast<uint32_t>(between(rng, 1, 16));
  config.sequences_max = static_cast<uint32_t>(between(rng, 1, 8));
  config.prefill_workers = static_cast<uint32_t>(between(rng, 1, 3));
  config.decode_workers = static_cast<uint32_t>(between(rng, 1, 3));
  config.wire_chunk_bytes = 64u << rng.below(4);
  config.wire_room = 4u << rng.below(4);
  config.window_frames = 4u << rng.below(4);
  draw_requests(rng, config);
  draw_faults(rng, config);
  return config;
}

std::string describe(const SwarmConfig& config) {
  std::string text = fmt::format("{}, pages {}", to_string(config.placement), config.pages);
  if (config.placement != Placement::kShared) {
    text += fmt::format(" + {} of prefill", config.prefill_pages);
  }
  if (config.placement == Placement::kRemote) {
    text += fmt::format(", workers {}P {}D of {} sequences, wire {} B x {}, window {}",
                        config.prefill_workers, config.decode_workers, config.sequences_max,
                        config.wire_chunk_bytes, config.wire_room, config.window_frames);
  }
  if (config.placement == Placement::kSplit) text += fmt::format(", link {}", config.link_pages);
  text += fmt::format(
      ", integrity {}, layers {}, cache {} ({} bits), chunk {}, running {}, concurrency {}, "
      "tenants {}, "
      "families {}, prompt pages {}, answer {}, cancelled {:.2f}, deadlines {:.2f}, retried "
      "{:.2f}, "
      "followed {:.2f}, scored {:.2f}, sampled {:.2f}, opted out {:.2f}, flushes {:.3f}; faults:",
      to_string(config.integrity), config.layers, config.prefix_cache ? "on" : "off",
      config.key_bits, config.chunk_tokens, config.running_max, config.concurrency, config.tenants,
      config.families, config.prompt_pages, config.answer_max, config.cancelled, config.deadlines,
      config.retried, config.followed, config.scored, config.sampled, config.opted_out,
      config.flushes);
  bool any = false;
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (config.rates[i] <= 0) continue;
    text += fmt::format(" {} {:.5f}", to_string(static_cast<FaultKind>(i)), config.rates[i]);
    any = true;
  }
  return any ? text : text + " none";
}

}  // namespace bulkhead::sim
