// The subcommands of `bulkhead`, one function each; options are filled by cli.cc,
// cli_bench.cc and cli_eval.cc.
//
// Threads: each runs on the main thread and returns the process's exit code: 0 done, 1 the work
// failed, 2 the command line was wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/options.h"
#include "apps/drill/options.h"
#include "apps/eval/options.h"
#include "quant/scale_rule.h"
#include "serve/capacity/capacity_plan.h"
#include "serve/config/settings.h"
#include "serve/options.h"

namespace bulkhead::apps {

struct ChatOptions {
  std::string url = "http://127.0.0.1:30000";
  std::string api_key;
  std::string system;         // system message, empty for none
  double temperature = -1.0;  // below 0: the server's default
  int max_tokens = 0;         // 0: the server's default
};

struct GenerateOptions {
  serve::ModelOptions model;
  std::string prompt;
  bool chat = false;  // render the prompt as a user's message through the chat template
  int max_tokens = 128;
  double temperature = 0.0;
  uint64_t seed = 0;
  bool stats = false;  // print token counts and rates to stderr
};

struct InspectOptions {
  std::string path;
  bool tensors = false;  // list every tensor
};

struct PlanOptions {
  std::string model_path;
  std::string weights = "auto";     // of the pools that do not say
  serve::CapacityOptions capacity;  // memory_bytes 0: this machine's
  bool json = false;
};

struct QuantizeOptions {
  std::string path;  // checkpoint; with dry_run also a config.json alone
  std::string out;   // directory to write; may be empty with dry_run
  std::string recipe;
  quant::ScaleRule rule = quant::ScaleRule::kSearch;
  uint64_t shard_bytes = uint64_t{5} << 30;
  unsigned threads = 0;  // 0: all logical CPUs
  int ranks = 8;         // that sizes are divided over
  bool dry_run = false;
};

struct BenchKernelsOptions {
  std::string isa;       // empty: every path that runs here
  unsigned threads = 0;  // 0: all logical CPUs
  int samples = 5;
  bool json = false;
  std::string history;  // JSON Lines file that figures are added to; empty: none
};

struct BenchPeerOptions {
  std::string source_dir = BULKHEAD_SOURCE_DIR;  // the checkout that this build was made from
  std::vector<std::string> arguments;            // of bench/peers.py
};

struct DoctorOptions {
  bool json = false;
  bool measure = true;  // half a second of memory and arithmetic peaks
};

struct ConfigExplainOptions {
  serve::Settings settings;
  bool json = false;
};

int run_serve(const serve::ServeOptions& options);
int run_chat(const ChatOptions& options);
int run_generate(const GenerateOptions& options);
int run_inspect(const InspectOptions& options);
int run_plan(const PlanOptions& options);
int run_quantize(const QuantizeOptions& options);
int run_bench_kernels(const BenchKernelsOptions& options);
int run_bench_serve(const BenchServeOptions& options);
int run_bench_replay(const BenchReplayOptions& options);
int run_bench_history(const BenchHistoryOptions& options);
// Becomes the Python program that compares; returns only when it cannot be started.
int run_bench_peer(const BenchPeerOptions& options);
// Exit code 0 whatever there is to tell.
int run_config_explain(const ConfigExplainOptions& options);
int run_bench_reproduce(ReproduceOptions options);
int run_doctor(const DoctorOptions& options);
int run_drill(const DrillOptions& options);
int run_eval(const EvalOptions& options);
int run_eval_compare(const EvalCompareOptions& options);
// Exit code 1 also where a bound is missed.
int run_eval_precision(const EvalPrecisionOptions& options);

}  // namespace bulkhead::apps
