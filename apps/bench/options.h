// What the subcommands of `bulkhead bench` are asked to do; filled by cli.cc, ranges checked there.
//
// Threads: plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace bulkhead::apps {

enum class BenchEndpoint { kCompletions, kChat };

struct BenchServeOptions {
  std::string url = "http://127.0.0.1:30000";
  std::string api_key;
  std::string model;  // empty: the first that the server lists
  BenchEndpoint endpoint = BenchEndpoint::kCompletions;

  uint64_t requests = 64;
  uint64_t concurrency = 0;  // closed loop: 0 means 8; open loop: 0 means no limit
  double rate = 0.0;         // requests per second; 0: closed loop
  double burstiness = 1.0;   // shape of the gamma distribution of gaps; 1: a Poisson process
  uint64_t warmup = 1;
  double timeout_seconds = 600.0;

  std::string dataset;  // JSON Lines file; empty: random token ids
  int64_t input_tokens = 256;
  int64_t output_tokens = 64;
  double range_ratio = 0.0;
  int64_t prefix_tokens = 0;
  uint64_t prefix_groups = 1;
  int64_t vocabulary = 0;  // 0: what the server says, else 10000
  uint64_t seed = 1;
  double temperature = 0.0;
  bool stop_at_eos = false;

  std::string goodput;  // "ttft:MS,tpot:MS,e2e:MS"
  std::string output;   // JSON file
  std::string history;  // JSON Lines file that figures are added to; empty: none
  bool tolerate_errors = false;
};

struct BenchReplayOptions {
  BenchServeOptions load;  // but for its prompts and its rate, which are the trace's
  std::string trace;
  uint64_t start = 0;  // the first row that is taken
  double time_scale = 1.0;
  double length_scale = 1.0;
  bool closed_loop = false;  // not when the trace says, but as soon as a place is free
  bool flush_cache = false;  // before the first measured request
  int64_t cache_pages = 0;   // of the simulated cache; 0: what the server says
  int64_t page_tokens = 0;
};

struct BenchHistoryOptions {
  std::string file = "bench/history.jsonl";
  bool fail_on_fall = false;
};

inline constexpr std::array kReproduceParts = {"sizes", "caches", "weights", "deployments",
                                               "integrity"};

struct ReproduceOptions {
  std::string models = "build/bench";  // folder of the checkpoints that tools/checkpoints makes
  std::vector<std::string> only;       // of kReproduceParts; empty: all of them
  std::string isa;                     // empty: the strongest
  unsigned threads = 0;                // 0: all
  int rounds = 9;                      // of everything that is timed in turn
  double seconds = 90.0;               // of steps with and without the integrity check, each model
  int32_t context = 1024;              // tokens of a request's context
  std::string json;                    // file for rows and curves; empty: none
  std::string history;                 // JSON Lines file that ratios are added to; empty: none
  std::string commit;                  // of this build, for the history
  bool quick = false;                  // tiny models, and no speed is judged
};

}  // namespace bulkhead::apps
