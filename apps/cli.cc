#include "cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "commands.h"

namespace bulkhead::apps {
namespace {

// CLI11 check: a size such as 512M or 2G; `bytes` receives it.
CLI::Option* add_size(CLI::App* app, const std::string& name, uint64_t& bytes,
                      const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [&bytes, name](const std::string& text) {
            const base::Result<uint64_t> parsed = base::parse_bytes(text);
            if (!parsed.ok()) throw CLI::ValidationError(name, parsed.error().message);
            bytes = *parsed;
          },
          help)
      ->type_name("SIZE");
}

// One of a few names; `chosen` receives what the name stands for.
template <typename T>
void add_choice(CLI::App* app, const std::string& name, T& chosen,
                const std::map<std::string, T>& choices, const std::string& help) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& [spelling, value] : choices) names.push_back(spelling);
  app->add_option_function<std::string>(
         name, [&chosen, choices](const std::string& text) { chosen = choices.at(text); }, help)
      ->check(CLI::IsMember(names));
}

// In what the weights and the cache are held.
void add_formats(CLI::App* app, serve::ModelOptions& model) {
  std::string help = "Formats of the weights: auto (as stored), or a recipe: ";
  for (const model::RecipePreset& preset : model::recipe_presets()) {
    help += fmt::format("{} ({}), ", preset.name, preset.meaning);
  }
  help += "or KIND=FORMAT,... of experts, shared, attention, mlp, head and bf16, fp8, int4 [auto]";
  app->add_option_function<std::string>(
         "--weights",
         [&model](const std::string& text) {
           model.weights.reset();
           if (text == "auto") return;
           const base::Result<model::WeightRecipe> recipe = model::parse_recipe(text);
           if (!recipe.ok()) throw CLI::ValidationError("--weights", recipe.error().message);
           model.weights = *recipe;
         },
         help)
      ->type_name("RECIPE");
  using kv::PageFormat;
  add_choice<PageFormat>(app, "--kv-cache-dtype", model.cache_format,
                         {{"auto", PageFormat::kBf16},
                          {"bf16", PageFormat::kBf16},
                          {"fp8_e4m3", PageFormat::kFp8E4m3}},
                         "Format of the cache; fp8_e4m3 holds about twice the tokens [auto: bf16]");
}

void add_model_options(CLI::App* app, serve::ModelOptions& model) {
  app->add_option("model,--model,--model-path,-m", model.model_path,
                  "GGUF file, or directory with config.json and safetensors")
      ->required()
      ->type_name("PATH")
      ->check(CLI::ExistingPath);
  app->add_option("--isa", model.isa, "Kernel path; default: the strongest this processor has")
      ->check(CLI::IsMember({"ref", "avx2", "avx512", "amx"}))
      ->envname("BULKHEAD_ISA");
  app->add_option("--threads,-t", model.threads, "Compute threads; default: all logical CPUs")
      ->check(CLI::Range(1u, 256u));
  app->add_option("--chat-template", model.chat_template_path,
                  "Jinja file to use instead of the checkpoint's own template")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app->add_option("--context-length,--max-model-len", model.context_tokens,
                  "Longest prompt plus answer of one request, in tokens; default: the model's")
      ->check(CLI::Range(16, 16 << 20));
  app->add_option("--page-size,--block-size", model.page_tokens, "Tokens per cache page")
      ->check(CLI::IsMember({16, 32, 64, 128}))
      ->capture_default_str();
  add_size(app, "--kv-cache-memory,--kv-cache-memory-bytes", model.kv_cache_bytes,
           "Memory for the cache; default: a quarter of what is free, at most 2 GiB");
  add_formats(app, model);
  app->add_option("--max-running-requests,--max-num-seqs", model.running_max,
                  "Requests that decode at once")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app->add_option("--max-queued-requests", model.queued_max,
                  "Requests that may wait; one more is answered 429")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  app->add_flag("!--disable-prefix-cache", model.prefix_cache,
                "do not keep prompts' pages for requests that begin alike");
  app->add_option("--chunked-prefill-size", model.prefill_chunk_tokens,
                  "Prompt tokens computed between two decode steps")
      ->check(CLI::Range(16, 8192))
      ->capture_default_str();
}

// One of the names of `names`; `chosen` receives the format.
template <typename Format, typename Names>
void add_format(CLI::App* app, const std::string& option, std::optional<Format>& chosen,
                const Names& names, const std::string& help) {
  std::map<std::string, Format> formats;
  std::vector<std::string> allowed;
  allowed.reserve(names.size());
  for (const auto& one : names) {
    formats.emplace(one.name, one.format);
    allowed.emplace_back(one.name);
  }
  app->add_option_function<std::string>(
         option, [&chosen, formats](const std::string& name) { chosen = formats.at(name); }, help)
      ->check(CLI::IsMember(allowed));
}

void add_chat_formats(CLI::App* app, serve::ServeOptions& options) {
  add_format(app, "--tool-call-parser", options.tool_format, chat::kToolFormatNames,
             "How the model writes tool calls; default: as its chat template says");
  add_format(app, "--reasoning-parser", options.reasoning_format, chat::kReasoningFormatNames,
             "How the model writes its reasoning; default: as its chat template says");
  using api::ReasoningField;
  add_choice<ReasoningField>(app, "--reasoning-field", options.reasoning_field,
                             {{"reasoning_content", ReasoningField::kReasoningContent},
                              {"reasoning", ReasoningField::kReasoning},
                              {"both", ReasoningField::kBoth}},
                             "Name of the reasoning in answers [reasoning_content]");
}

void add_serve(CLI::App& root, serve::ServeOptions& options) {
  CLI::App* app = root.add_subcommand("serve", "Serve a model over an OpenAI-compatible HTTP API");
  add_model_options(app, options.model);
  app->add_option("--host", options.host, "Address to listen on; anything but loopback needs a key")
      ->capture_default_str();
  app->add_option("--port", options.port, "Port to listen on; 0 picks a free one")
      ->capture_default_str();
  app->add_option("--port-file", options.port_file,
                  "File that receives the port once the server is ready")
      ->type_name("FILE");
  app->add_option("--served-model-name", options.served_model_name,
                  "Name that /v1/models reports and requests may use");
  app->add_option("--api-key", options.api_keys,
                  "Keys, one of which clients must send as a bearer token; commas between several")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->envname("BULKHEAD_API_KEY")
      ->type_name("KEY");
  app->add_option("--api-key-file", options.api_key_file,
                  "File of more keys, one a line, # for comments; SIGHUP reads it again")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app->add_option("--admin-key", options.admin_key,
                  "Key that flushes the cache and aborts anybody's requests")
      ->envname("BULKHEAD_ADMIN_KEY")
      ->type_name("KEY");
  add_choice<bool>(app, "--priority-order", options.higher_priority_first,
                   {{"lower-first", false}, {"higher-first", true}},
                   "Which `priority` of a request goes first [lower-first]");
  add_chat_formats(app, options);
  app->add_option_function<int64_t>(
         "--request-timeout",
         [&options](const int64_t& seconds) {
           options.request_timeout = std::chrono::seconds(seconds);
         },
         "Seconds after which a request ends with 408; default: no limit")
      ->check(CLI::Range(1, 7 * 24 * 3600));
  app->add_option_function<int64_t>(
         "--drain-timeout",
         [&options](const int64_t& seconds) {
           options.drain_timeout = std::chrono::seconds(seconds);
         },
         "Seconds that running requests may take to finish after SIGTERM [30]")
      ->check(CLI::Range(0, 3600));
  add_choice<base::LogLevel>(app, "--log-level", options.log_level,
                             {{"debug", base::LogLevel::kDebug},
                              {"info", base::LogLevel::kInfo},
                              {"warning", base::LogLevel::kWarning},
                              {"error", base::LogLevel::kError}},
                             "Least severe level to log [info]");
  add_choice<base::LogFormat>(app, "--log-format", options.log_format,
                              {{"text", base::LogFormat::kText}, {"json", base::LogFormat::kJson}},
                              "Form of the log lines on standard error [text]");
  app->add_flag("--dry-run", options.dry_run, "Print the plan and stop before loading weights");
  app->footer(
      "Example:\n"
      "  bulkhead serve models/SmolLM2-135M-Instruct.Q4_1.gguf --port 30000\n"
      "  curl http://127.0.0.1:30000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'");
}

void add_chat(CLI::App& root, ChatOptions& options) {
  CLI::App* app = root.add_subcommand("chat", "Talk to a running server from the terminal");
  app->add_option("--url", options.url, "Address of the server")->capture_default_str();
  app->add_option("--api-key", options.api_key, "Key, where the server asks for one")
      ->envname("BULKHEAD_API_KEY")
      ->type_name("KEY");
  app->add_option("--system", options.system, "System message to start with");
  app->add_option("--temperature", options.temperature, "0 is greedy; default: the server's")
      ->check(CLI::Range(0.0, 2.0));
  app->add_option("--max-tokens", options.max_tokens, "Longest answer; default: the server's")
      ->check(CLI::Range(1, 1 << 24));
  app->footer("Inside: /help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves.");
}

void add_generate(CLI::App& root, GenerateOptions& options) {
  CLI::App* app = root.add_subcommand("generate", "Continue one prompt without a server");
  add_model_options(app, options.model);
  app->add_option("--prompt,-p", options.prompt, "Text to continue; - reads standard input")
      ->required();
  app->add_flag("--chat", options.chat, "Treat the prompt as a user's message");
  app->add_option("--max-tokens,-n", options.max_tokens, "Longest answer")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app->add_option("--temperature", options.temperature, "0 is greedy")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  app->add_option("--seed", options.seed, "Seed of the random draws")->capture_default_str();
  app->add_flag("--stats", options.stats, "Print token counts and rates to standard error");
}

void add_inspect(CLI::App& root, InspectOptions& options) {
  CLI::App* app = root.add_subcommand("inspect", "Print a checkpoint's facts without loading it");
  app->add_option("path", options.path, "GGUF file, or directory with safetensors")
      ->required()
      ->type_name("PATH")
      ->check(CLI::ExistingPath);
  app->add_flag("--tensors", options.tensors, "List every tensor with type and shape");
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
}

void add_bench_load(CLI::App* app, BenchServeOptions& options) {
  app->add_option("--requests,--num-prompts", options.requests, "Requests to send")
      ->check(CLI::Range(uint64_t{1}, uint64_t{10'000'000}))
      ->capture_default_str();
  app->add_option("--concurrency,--max-concurrency", options.concurrency,
                  "Requests open at once; default: 8 in a closed loop, no limit with --rate")
      ->check(CLI::Range(uint64_t{1}, uint64_t{100'000}));
  app->add_option("--rate,--request-rate", options.rate,
                  "Open loop: requests per second on average, whether or not answers come; "
                  "latencies count from a request's arrival")
      ->check(CLI::Range(1e-3, 1e6));
  app->add_option("--burstiness", options.burstiness,
                  "Shape of the gaps of an open loop: 1 is a Poisson process, less comes in bursts")
      ->check(CLI::Range(0.01, 1000.0))
      ->capture_default_str();
  app->add_option("--warmup", options.warmup, "Requests sent before, and not measured")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1000}))
      ->capture_default_str();
  app->add_option("--timeout", options.timeout_seconds, "Seconds that one request may take")
      ->check(CLI::Range(0.1, 86'400.0))
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
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app->add_option("--prefix-tokens", options.prefix_tokens,
                  "Tokens in front that all requests of a group share")
      ->check(CLI::Range(0, 16 << 20))
      ->capture_default_str();
  app->add_option("--prefix-groups", options.prefix_groups, "Groups, taken in turn")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}))
      ->capture_default_str();
  app->add_option("--vocabulary", options.vocabulary,
                  "Ids are drawn below this; default: what the server says, else 10000")
      ->check(CLI::Range(1, 1 << 24));
  app->add_option("--seed", options.seed, "Seed of prompts, lengths and arrivals")
      ->capture_default_str();
  app->add_option("--temperature", options.temperature, "0 is greedy")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  app->add_flag("--stop-at-eos", options.stop_at_eos,
                "Let answers end by themselves; default: ignore_eos, all of the asked length");
}

void add_bench_serve(CLI::App* bench, BenchServeOptions& options) {
  CLI::App* app = bench->add_subcommand(
      "serve", "Load a running OpenAI-compatible server and report latency and throughput");
  app->add_option("--url", options.url, "Address of the server")->capture_default_str();
  app->add_option("--api-key", options.api_key, "Key, where the server asks for one")
      ->envname("BULKHEAD_API_KEY")
      ->type_name("KEY");
  app->add_option("--model,-m", options.model, "Model to ask for; default: the first listed");
  add_bench_load(app, options);
  add_bench_prompts(app, options);
  app->add_option("--goodput", options.goodput,
                  "Count answers within bounds in milliseconds: ttft:MS,tpot:MS,e2e:MS")
      ->type_name("BOUNDS");
  app->add_option("--output,-o", options.output, "Write all figures and one record a request here")
      ->type_name("JSON");
  app->add_flag("--tolerate-errors", options.tolerate_errors,
                "Exit with 0 although requests failed");
  app->footer(
      "Examples:\n"
      "  bulkhead bench serve --concurrency 16 --requests 128 --input-tokens 512\n"
      "  bulkhead bench serve --rate 4 --goodput ttft:500,tpot:100 --output run.json\n"
      "Exit code 1 when a request failed. TTFT is the first chunk with text; ITL the time between\n"
      "two chunks with text; TPOT (last - first token) / (tokens - 1).");
}

void add_bench_peer(CLI::App* bench, BenchPeerOptions& options) {
  CLI::App* app = bench->add_subcommand(
      "peer",
      "Compare with llama.cpp on the same model: speed, and answers that change under load");
  app->prefix_command();
  app->set_help_flag();
  app->final_callback([app, &options] { options.arguments = app->remaining(); });
}

void add_doctor(CLI::App& root, DoctorOptions& options) {
  CLI::App* app = root.add_subcommand("doctor", "Say what this machine offers and what would help");
  app->add_flag("--json", options.json, "One JSON object instead of the lines");
  app->add_flag("!--no-measure", options.measure,
                "Leave out the half second that measures memory and arithmetic");
  app->footer("Exit code 1 when something makes serving impossible.");
}

struct BenchCommands {
  BenchKernelsOptions kernels;
  BenchServeOptions serve;
  BenchPeerOptions peer;
};

CLI::App* add_bench(CLI::App& root, BenchCommands& options) {
  CLI::App* bench = root.add_subcommand("bench", "Measure this machine, a server, or a peer");
  bench->require_subcommand(1);
  add_bench_kernels(bench, options.kernels);
  add_bench_serve(bench, options.serve);
  add_bench_peer(bench, options.peer);
  return bench;
}

int run_bench(const CLI::App& bench, const BenchCommands& options) {
  if (bench.got_subcommand("serve")) return run_bench_serve(options.serve);
  if (bench.got_subcommand("peer")) return run_bench_peer(options.peer);
  return run_bench_kernels(options.kernels);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{
      "Bulkhead serves open-weight language models from one machine.\n"
      "Start with: bulkhead serve MODEL    then: bulkhead chat"};
  app.name("bulkhead");
  app.set_version_flag("--version", BULKHEAD_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(42);

  serve::ServeOptions serve_options;
  ChatOptions chat_options;
  GenerateOptions generate_options;
  InspectOptions inspect_options;
  BenchCommands bench_options;
  DoctorOptions doctor_options;
  add_serve(app, serve_options);
  add_chat(app, chat_options);
  add_generate(app, generate_options);
  add_inspect(app, inspect_options);
  const CLI::App* bench = add_bench(app, bench_options);
  add_doctor(app, doctor_options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (app.got_subcommand("serve")) return run_serve(serve_options);
  if (app.got_subcommand("chat")) return run_chat(chat_options);
  if (app.got_subcommand("generate")) return run_generate(generate_options);
  if (app.got_subcommand("inspect")) return run_inspect(inspect_options);
  if (app.got_subcommand("doctor")) return run_doctor(doctor_options);
  return run_bench(*bench, bench_options);
}

}  // namespace bulkhead::apps
