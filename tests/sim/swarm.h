// What one seed decides: how the deployment looks, what is asked of it, and what goes wrong.
//
// Threads: plain values. Invariant: a configuration is a function of its seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kv/integrity/mode.h"
#include "sim/faults.h"

namespace bulkhead::sim {

enum class Placement : uint8_t { kShared, kSplit, kRemote };
std::string_view to_string(Placement placement);

constexpr int32_t kPageTokens = 16;  // the fewest that a page may have
constexpr int32_t kContext = 256;

struct SwarmConfig {
  uint64_t seed = 0;
  Placement placement = Placement::kShared;
  // Deployment.
  int32_t pages = 8;          // of the pool of both, or of each decode worker
  int32_t prefill_pages = 8;  // of a pool of prefill's own
  int32_t layers = 1;
  kv::integrity::Mode integrity = kv::integrity::Mode::kOff;
  bool prefix_cache = true;
  int key_bits = 256;  // of the prefix index: few make collisions common
  int32_t chunk_tokens = 32;
  int32_t link_pages = 4;  // that the split link copies in a step
  uint32_t running_max = 8;
  uint32_t sequences_max = 4;  // of one worker
  uint32_t prefill_workers = 1;
  uint32_t decode_workers = 1;
  uint32_t wire_chunk_bytes = 128;
  uint32_t wire_room = 16;  // frames under way in one direction
  uint32_t window_frames = 8;
  // Requests.
  uint32_t concurrency = 8;
  uint32_t tenants = 1;
  uint32_t families = 2;     // of prompts that begin alike
  int32_t prompt_pages = 3;  // at most
  int32_t answer_max = 16;
  double cancelled = 0;  // share of requests
  double deadlines = 0;
  double retried = 0;   // of those that failed
  double followed = 0;  // by another answer to the same prompt
  double scored = 0;
  double sampled = 0;    // not greedy
  double opted_out = 0;  // leave nothing in the cache
  double flushes = 0;    // of the whole cache, per request
  FaultRates rates{};
};

SwarmConfig draw_config(uint64_t seed);
std::string describe(const SwarmConfig& config);

}  // namespace bulkhead::sim
