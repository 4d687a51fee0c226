// What `bulkhead bench serve` and `bulkhead bench reproduce` are asked to do; filled by cli.cc,
// ranges checked there.
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
  bool tolerate_errors = false;
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
  bool quick = false;                  // tiny models, and no speed is judged
};

}  // namespace bulkhead::apps
