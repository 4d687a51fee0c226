#include "cli_bench.h"

#include <map>
#include <string>
#include <vector>

#include "cli_checks.h"

namespace bulkhead::apps {
namespace {

// Off by default: where the program is installed there is no such file.
void add_history_file(CLI::App* app, std::string& file) {
  app->add_option("--history", file,
                  "Add the figures to this file, for `bench history`; default: none")
      ->type_name("JSONL");
}

void add_bench_kernels(CLI::App* bench, BenchKernelsOptions& options) {
  CLI::App* kernels = bench->add_subcommand(
      "kernels", "Each kernel's speed and its share of this machine's measured peak");
  kernels->add_option("--isa", options.isa, "One kernel path; default: every one that runs here")
      ->check(CLI::IsMember({"ref", "avx2", "avx512", "amx"}));
  kernels->add_option("--threads,-t", options.threads, "Compute threads; default: all")
      ->check(CLI::Range(1u, 256u));
  kernels->add_option("--samples", options.samples, "Samples a figure is the median of")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  kernels->add_flag("--json", options.json, "One JSON object instead of the table");
  add_history_file(kernels, options.history);
}

// Which server, how many requests, and how long each may take.
void add_bench_target(CLI::App* app, BenchServeOptions& options, uint64_t requests_max) {
  add_server(app, options);
  app->add_option("--model,-m", options.model, "Model to ask for; default: the first listed");
  app->add_option("--requests,--num-prompts", options.requests, "Requests to send")
      ->check(CLI::Range(uint64_t{1}, requests_max))
      ->capture_default_str();
  app->add_option("--warmup", options.warmup, "Requests sent before, and not measured")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1000}))
      ->capture_default_str();
  app->add_option("--timeout", options.timeout_seconds, "Seconds that one request may take")
      ->check(in_range(0.1, 86'400.0))
      ->capture_default_str();
  app->add_option("--vocabulary", options.vocabulary,
                  "Ids are drawn below this; default: what the server says, else 10000")
      ->check(CLI::Range(1, 1 << 24));
}

void add_bench_results(CLI::App* app, BenchServeOptions& options) {
  app->add_option("--goodput", options.goodput,
                  "Count answers within bounds in milliseconds: ttft:MS,tpot:MS,itl:MS,e2e:MS; "
                  "itl is an answer's longest gap")
      ->type_name("BOUNDS");
  app->add_option("--output,--json,-o", options.output,
                  "Write all figures and one record a request here")
      ->type_name("JSON");
  add_history_file(app, options.history);
  app->add_flag("--tolerate-errors", options.tolerate_errors,
                "Exit with 0 although requests failed");
}

void add_bench_load(CLI::App* app, BenchServeOptions& options) {
  app->add_option("--concurrency,--max-concurrency", options.concurrency,
                  "Requests open at once; default: 8 in a closed loop, no limit with --rate")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000}));
  app->add_option("--rate,--request-rate", options.rate,
                  "Open loop: requests per second on average, whether or not answers come; "
                  "latencies count from a request's arrival")
      ->check(in_range(1e-3, 1e6));
  app->add_option("--burstiness", options.burstiness,
                  "Shape of the gaps of an open loop: 1 is a Poisson process, less comes in bursts")
      ->check(in_range(0.01, 1000.0))
      ->capture_default_str();
}

void add_bench_prompts(CLI::App* app, BenchServeOptions& options) {
  app->add_option(
         "--dataset", options.dataset,
         "JSON Lines of {\"prompt\": text or token ids} or {\"messages\": [...]}, each with "
         "\"max_tokens\" if it likes; default: random token ids")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  add_choice<BenchEndpoint>(
      app, "--endpoint", options.endpoint,
      {{"completions", BenchEndpoint::kCompletions}, {"chat", BenchEndpoint::kChat}},
      "Where prompts of a file go [completions]");
  app->add_option("--input-tokens,--random-input-len", options.input_tokens,
                  "Random tokens of a prompt, after its prefix")
      ->check(CLI::Range(1, 16 << 20))
      ->capture_default_str();
  app->add_option("--output-tokens,--random-output-len", options.output_tokens,
                  "Tokens of an answer")
      ->check(CLI::Range(1, 16 << 20))
      ->capture_default_str();
  app->add_option("--range-ratio", options.range_ratio,
                  "Lengths spread evenly by this share around the two above")
      ->check(in_range(0.0, 1.0))
      ->capture_default_str();
  app->add_option("--prefix-tokens", options.prefix_tokens,
                  "Tokens in front that all requests of a group share")
      ->check(CLI::Range(0, 16 << 20))
      ->capture_default_str();
  app->add_option("--prefix-groups", options.prefix_groups, "Groups, taken in turn")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}))
      ->capture_default_str();
  app->add_option("--seed", options.seed, "Seed of prompts, lengths and arrivals")
      ->capture_default_str();
  app->add_option("--temperature", options.temperature, "0 is greedy")
      ->check(in_range(0.0, 2.0))
      ->capture_default_str();
  app->add_flag("--stop-at-eos", options.stop_at_eos,
                "Let answers end by themselves; default: ignore_eos, all of the asked length");
}

void add_bench_serve(CLI::App* bench, BenchServeOptions& options) {
  CLI::App* app = bench->add_subcommand(
      "serve", "Load a running OpenAI-compatible server and report latency and throughput");
  add_bench_target(app, options, 10'000'000);
  add_bench_load(app, options);
  add_bench_prompts(app, options);
  add_bench_results(app, options);
  app->footer(
      "Examples:\n"
      "  bulkhead bench serve --concurrency 16 --requests 128 --input-tokens 512\n"
      "  bulkhead bench serve --rate 4 --goodput ttft:500,tpot:100 --output run.json\n"
      "Exit code 1 when a request failed. TTFT is the first chunk with text; ITL the time between\n"
      "two chunks with text; TPOT (last - first token) / (tokens - 1).");
}

void add_replay_scale(CLI::App* app, BenchReplayOptions& options) {
  app->add_option("--start", options.start, "Row of the trace to begin with; the first is 0")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1'000'000'000}))
      ->capture_default_str();
  app->add_option("--time-scale", options.time_scale,
                  "Times between arrivals are divided by this: 10 is ten times as fast")
      ->check(in_range(1e-3, 1e9))
      ->capture_default_str();
  app->add_option("--length-scale", options.length_scale,
                  "Lengths are divided by this, and blocks with them")
      ->check(in_range(1.0, 512.0))
      ->capture_default_str();
  app->add_flag("--closed-loop", options.closed_loop,
                "Leave the trace's times out: the next request starts where one ended");
  app->add_option("--concurrency,--max-concurrency", options.load.concurrency,
                  "Requests open at once; default: no limit, 8 in a closed loop; with 1 the "
                  "simulated prefix hits must be the measured ones")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000}));
  app->add_option("--seed", options.load.seed, "Seed of the prompts")->capture_default_str();
}

void add_replay_cache(CLI::App* app, BenchReplayOptions& options) {
  app->add_flag("--flush-cache", options.flush_cache,
                "POST /flush_cache before the first measured request, so that the cache is empty "
                "as the simulated one is");
  CLI::Option* pages = app->add_option("--cache-pages", options.cache_pages,
                                       "Pages of the simulated cache; default: the server's, by "
                                       "/get_server_info")
                           ->check(CLI::Range(1, 1 << 21));
  CLI::Option* tokens = app->add_option("--page-tokens", options.page_tokens, "Tokens of its pages")
                            ->check(CLI::IsMember({16, 32, 64, 128, 256, 512, 1024}))
                            ->needs(pages);
  pages->needs(tokens);
}

void add_bench_replay(CLI::App* bench, BenchReplayOptions& options) {
  CLI::App* app = bench->add_subcommand(
      "replay", "Replay a recorded trace: latency, goodput, prefix hits beside simulated ones");
  app->add_option("trace", options.trace,
                  "Mooncake's JSON Lines (timestamp, input_length, output_length, hash_ids) or "
                  "Azure's CSV (TIMESTAMP,ContextTokens,GeneratedTokens)")
      ->required()
      ->type_name("TRACE")
      ->check(CLI::ExistingFile);
  add_bench_target(app, options.load, 1'000'000);
  add_replay_scale(app, options);
  add_replay_cache(app, options);
  add_bench_results(app, options.load);
  app->footer(
      "Example:\n"
      "  bulkhead bench replay mooncake-conversation.jsonl --requests 200 --length-scale 16 \\\n"
      "    --time-scale 4 --goodput ttft:2000,itl:200\n"
      "Prompts are token ids drawn from the seed and the trace's block hashes: prompts that began\n"
      "alike begin alike. Azure's rows have no hashes, so their prompts share nothing. Exit code "
      "1\n"
      "when a request failed.");
}

void add_bench_history(CLI::App* bench, BenchHistoryOptions& options) {
  CLI::App* app = bench->add_subcommand(
      "history", "The figures of earlier runs: where each stands, and which fell beyond noise");
  app->add_option("file", options.file, "What --history wrote")
      ->type_name("FILE")
      ->capture_default_str();
  app->add_flag("--fail-on-fall", options.fail_on_fall, "Exit with 1 when a figure fell");
  app->footer(
      "A figure fell when it is worse than the median of the earlier ones of the same machine "
      "class\n"
      "by more than 10 % and three of their deviations (median distance from the median x "
      "1.4826).\n"
      "With fewer than three earlier ones nothing is judged.");
}

void add_bench_peer(CLI::App* bench, BenchPeerOptions& options) {
  CLI::App* app = bench->add_subcommand(
      "peer",
      "Compare with other engines on one model: speed, memory, answers that change under load");
  app->prefix_command();
  app->set_help_flag();
  app->final_callback([app, &options] { options.arguments = app->remaining(); });
}

// How much of everything, or little of it.
void add_reproduce_lengths(CLI::App* app, ReproduceOptions& options) {
  CLI::Option* rounds =
      app->add_option("--rounds", options.rounds, "Rounds in turn that a ratio is the median of")
          ->check(CLI::Range(3, 99))
          ->capture_default_str();
  CLI::Option* seconds = app->add_option("--seconds", options.seconds,
                                         "Of steps with the integrity check and without it, for "
                                         "each of two models: the more, the smaller a cost shows")
                             ->check(in_range(0.0, 3600.0))
                             ->capture_default_str();
  CLI::Option* context =
      app->add_option("--context", options.context,
                      "Tokens that every decoding request has; with others than these, speeds that "
                      "depend on them are reported and not judged")
          ->check(CLI::Range(64, 16384))
          ->capture_default_str();
  app->add_flag("--quick", options.quick,
                "Tiny models (nano, nano-L), a few seconds, and no speed is judged")
      ->excludes(rounds)
      ->excludes(seconds)
      ->excludes(context);
}

void add_bench_reproduce(CLI::App* bench, ReproduceOptions& options) {
  CLI::App* app = bench->add_subcommand(
      "reproduce", "The published gains of two precisions, measured here side by side");
  app->add_option("--models", options.models,
                  "Folder of the random checkpoints mini-K, mini-L and mini-G; where they are not "
                  "there, what makes them is said. tiny-moe is taken from the checkout otherwise")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--only", options.only,
                  "These parts alone, with commas between them; default: all")
      ->delimiter(',')
      ->check(
          CLI::IsMember(std::vector<std::string>(kReproduceParts.begin(), kReproduceParts.end())))
      ->type_name("PARTS");
  app->add_option("--json", options.json,
                  "Write rows and curves here; bench/reproduce_plot.py draws them")
      ->type_name("FILE");
  add_history_file(app, options.history);
  app->add_option("--isa", options.isa, "Kernel path; default: the strongest there is")
      ->check(CLI::IsMember({"avx2", "avx512", "amx"}));
  app->add_option("--threads,-t", options.threads, "Compute threads; default: all")
      ->check(CLI::Range(1u, 256u));
  add_reproduce_lengths(app, options);
  app->footer(
      "Parts: sizes (checkpoints, tokens and cost of public models, by arithmetic), caches (FP8 "
      "and\n"
      "BF16), weights (INT4, FP8, BF16), deployments (admission, two precisions at once),\n"
      "integrity (what the page check and digests cost). The log says how long a run will take.\n"
      "Exit code 1 when a row falls short of what this kind of machine has to show, 2 when a "
      "model\n"
      "is missing. Every ratio is of two things done in turn in one run, on this machine. A "
      "verdict\n"
      "is open where noise hides the bound: --seconds buys more pairs.");
}

}  // namespace

CLI::App* add_bench(CLI::App& root, BenchCommands& options) {
  CLI::App* bench = root.add_subcommand("bench", "Measure this machine, a server, or a peer");
  bench->require_subcommand(1);
  add_bench_kernels(bench, options.kernels);
  add_bench_serve(bench, options.serve);
  add_bench_replay(bench, options.replay);
  add_bench_history(bench, options.history);
  add_bench_peer(bench, options.peer);
  add_bench_reproduce(bench, options.reproduce);
  return bench;
}

int run_bench(const CLI::App& bench, const BenchCommands& options) {
  if (bench.got_subcommand("serve")) return run_bench_serve(options.serve);
  if (bench.got_subcommand("replay")) return run_bench_replay(options.replay);
  if (bench.got_subcommand("history")) return run_bench_history(options.history);
  if (bench.got_subcommand("peer")) return run_bench_peer(options.peer);
  if (bench.got_subcommand("reproduce")) return run_bench_reproduce(options.reproduce);
  return run_bench_kernels(options.kernels);
}

}  // namespace bulkhead::apps
