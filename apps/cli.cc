#include "cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/drill/fault_classes.h"
#include "cli_bench.h"
#include "cli_checks.h"
#include "cli_eval.h"
#include "commands.h"
#include "model/weight_recipe.h"
#include "serve/config/option_table.h"
#include "serve/config/settings.h"

namespace bulkhead::apps {
namespace {

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  names.reserve(fault_classes().size());
  for (const FaultClass& fault : fault_classes()) names.emplace_back(fault.name);
  return names;
}

// What the options of serve/config/option_table.h were given.
struct TableInput {
  serve::GivenOptions given;
  std::string config_path;
};

std::string help_of(const serve::OptionSpec& spec) {
  std::string help = spec.meaning;
  if (!spec.unset.empty()) help += "; default: " + spec.unset;
  if (!spec.environment.empty()) help += " (environment: " + spec.environment + ")";
  return help;
}

// Why the text cannot be taken; empty: it can.
std::string refusal_of(const serve::OptionSpec& spec, const std::string& text) {
  serve::ServeOptions scratch;
  const base::Status status = spec.set(std::span(&text, 1), scratch);
  return status.ok() ? std::string() : status.error().message;
}

void add_table_option(CLI::App* app, const serve::OptionSpec& spec, TableInput& input) {
  const auto take = [&input, &spec](std::vector<std::string> values) {
    input.given[spec.name] = {std::move(values), serve::OptionSource::kFlag, spec.flag};
  };
  if (spec.type == serve::OptionType::kSwitch) {
    app->add_flag_callback(spec.flags, [take] { take({"true"}); }, help_of(spec));
    return;
  }
  CLI::Option* option =
      spec.type == serve::OptionType::kList
          ? app->add_option_function<std::vector<std::string>>(spec.flags, take, help_of(spec))
                ->allow_extra_args(false)
          : app->add_option_function<std::string>(
                spec.flags, [take](const std::string& value) { take({value}); }, help_of(spec));
  option->check([&spec](const std::string& text) { return refusal_of(spec, text); });
  option->default_str(spec.show(serve::ServeOptions{}));
  const bool choice = spec.type == serve::OptionType::kChoice;
  option->type_name(choice                    ? "{" + spec.bounds + "}"
                    : spec.bounds.empty()     ? (spec.value_name.empty() ? "TEXT" : spec.value_name)
                    : spec.value_name.empty() ? spec.bounds
                                              : spec.value_name + " (" + spec.bounds + ")");
}

void add_table(CLI::App* app, bool with_server, TableInput& input) {
  for (const serve::OptionSpec& spec : serve::option_table()) {
    if (with_server || spec.group == serve::OptionGroup::kModel) {
      add_table_option(app, spec, input);
    }
  }
}

void add_config_file(CLI::App* app, TableInput& input) {
  app->add_option("--config", input.config_path,
                  "Deployment file (TOML): these options by their names, with _ for -; flags go "
                  "before it")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
}

struct ServeInput {
  TableInput table;
  bool dry_run = false;
};

void add_serve(CLI::App& root, ServeInput& input) {
  CLI::App* app = root.add_subcommand("serve", "Serve a model over an OpenAI-compatible HTTP API");
  add_config_file(app, input.table);
  add_table(app, true, input.table);
  app->add_flag("--dry-run", input.dry_run, "Print the plan and stop before loading weights");
  app->footer(
      "Example:\n"
      "  bulkhead serve models/SmolLM2-135M-Instruct.Q4_1.gguf --port 30000\n"
      "  curl http://127.0.0.1:30000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'");
}

struct ExplainInput {
  TableInput table;
  bool json = false;
};

void add_config(CLI::App& root, ExplainInput& input) {
  CLI::App* config = root.add_subcommand("config", "Look at a deployment before it runs");
  config->require_subcommand(1);
  CLI::App* app = config->add_subcommand(
      "explain", "Every option of serve: its value, where it comes from, and why");
  add_config_file(app, input.table);
  add_table(app, true, input.table);
  app->add_flag("--json", input.json, "One JSON object instead of the lines");
}

void add_chat(CLI::App& root, ChatOptions& options) {
  CLI::App* app = root.add_subcommand("chat", "Talk to a running server from the terminal");
  add_server(app, options);
  app->add_option("--system", options.system, "System message to start with");
  app->add_option("--temperature", options.temperature, "0 is greedy; default: the server's")
      ->check(in_range(0.0, 2.0));
  app->add_option("--max-tokens", options.max_tokens, "Longest answer; default: the server's")
      ->check(CLI::Range(1, 1 << 24));
  app->footer("Inside: /help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves.");
}

void add_generate(CLI::App& root, GenerateOptions& options, TableInput& input) {
  CLI::App* app = root.add_subcommand("generate", "Continue one prompt without a server");
  add_table(app, false, input);
  app->add_option("--prompt,-p", options.prompt, "Text to continue; - reads standard input")
      ->required();
  app->add_flag("--chat", options.chat, "Treat the prompt as a user's message");
  app->add_option("--max-tokens,-n", options.max_tokens, "Longest answer")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app->add_option("--temperature", options.temperature, "0 is greedy")
      ->check(in_range(0.0, 2.0))
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

std::string recipe_help() {
  std::string text = "RECIPE:";
  for (const model::RecipePreset& preset : model::recipe_presets()) {
    text += fmt::format("\n  {}: {}", preset.name, preset.meaning);
  }
  return text + "\n  or KIND=FORMAT by commas, after a preset or alone";
}

// One pool's formats; `wish` receives them.
void add_pool_formats(CLI::App* app, const std::string& pool, serve::PoolWish& wish) {
  app->add_option("--" + pool + ".weights", wish.weights, "Weights of this pool")
      ->type_name("RECIPE");
  app->add_option("--" + pool + ".kv", wish.kv, "Cache of this pool; auto: bf16")
      ->check(CLI::IsMember({"auto", "bf16", "fp8_e4m3"}));
  app->add_option("--" + pool + ".throughput", wish.tokens_per_second,
                  "Tokens per second that you measured on all its ranks")
      ->check(in_range(1e-6, 1e12));
}

// "2.5" or "2.5/GPU-hour".
double price_of(const std::string& text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string unit = text.substr(slash);
  const bool known = unit.empty() || unit == "/GPU-hour" || unit == "/rank-hour";
  const base::Result<double> price = parse_number(text.substr(0, slash), 1e-9, 1e9);
  if (!known || !price.ok()) {
    throw CLI::ValidationError("--price", "'" + text +
                                              "' is not a price; write e.g. 2.5 or 2.5/GPU-hour, "
                                              "of one rank and hour");
  }
  return *price;
}

void add_plan_lengths(CLI::App* app, serve::CapacityOptions& capacity) {
  app->add_option("--context", capacity.context_tokens,
                  "Tokens of a request's prompt; default: what the model's context leaves")
      ->check(CLI::Range(int64_t{1}, int64_t{model::kContextMax}));
  app->add_option("--output", capacity.output_tokens, "Tokens of its answer")
      ->check(CLI::Range(int64_t{0}, int64_t{model::kContextMax}))
      ->capture_default_str();
  app->add_option("--page-size", capacity.page_tokens, "Tokens per cache page")
      ->check(CLI::IsMember({16, 32, 64, 128}))
      ->capture_default_str();
}

void add_plan(CLI::App& root, PlanOptions& options) {
  serve::CapacityOptions& capacity = options.capacity;
  CLI::App* app = root.add_subcommand(
      "plan", "Say what a model needs and holds in two precisions, and what a token costs");
  app->add_option("model,--model,-m", options.model_path,
                  "Directory with config.json, with or without weights; config.json; GGUF file")
      ->required()
      ->type_name("PATH")
      ->check(CLI::ExistingPath);
  add_size(app, "--memory", capacity.memory_bytes,
           "Memory of one rank; binary multiples: 141GB and 141GiB are the same; default: this "
           "machine's");
  app->add_option("--memory-fraction", capacity.memory_share, "Part of it for weights and cache")
      ->check(in_range(0.01, 1.0))
      ->capture_default_str();
  app->add_option("--ranks", capacity.ranks, "Ranks of each pool, that divide the weights")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app->add_option("--weights", options.weights,
                  "Weights of a pool that does not say; auto: as they are stored. " + recipe_help())
      ->type_name("RECIPE")
      ->capture_default_str();
  capacity.prefill.weights.clear();
  capacity.decode.weights.clear();
  add_pool_formats(app, "prefill", capacity.prefill);
  add_pool_formats(app, "decode", capacity.decode);
  add_pool_formats(app, "against", capacity.against);
  add_plan_lengths(app, capacity);
  app->add_option_function<std::string>(
         "--price", [&capacity](const std::string& text) { capacity.price = price_of(text); },
         "Price of one rank for an hour: 2.5 or 2.5/GPU-hour")
      ->type_name("PRICE");
  app->add_flag("--json", options.json, "One JSON object instead of the table");
  app->footer(
      "`against` is the decode pool in another precision, beside it with ratios; what is not said\n"
      "of it is as in the prefill pool.\n"
      "Examples:\n"
      "  bulkhead plan GLM-5.2/config.json --memory 141GiB --ranks 8 --memory-fraction 0.8 \\\n"
      "    --prefill.weights fp8 --decode.weights kimi --decode.kv fp8_e4m3 --context 8192\n"
      "  bulkhead plan Kimi-K2.6/ --memory 141GiB --ranks 8 --decode.kv fp8_e4m3 \\\n"
      "    --price 2.5/GPU-hour --decode.throughput 2192 --against.throughput 1555\n"
      "Exit code 1 when a pool does not fit.");
}

void add_quantize(CLI::App& root, QuantizeOptions& options) {
  CLI::App* app =
      root.add_subcommand("quantize", "Write a checkpoint in FP8 or INT4, in the public formats");
  app->add_option("model,--model,-m", options.path,
                  "GGUF file, or directory with config.json and safetensors")
      ->required()
      ->type_name("PATH")
      ->check(CLI::ExistingPath);
  app->add_option("out,--out,-o", options.out,
                  "Directory to write; one that an interrupted run left is finished")
      ->type_name("OUT");
  app->add_option("--recipe", options.recipe, "Format of each kind of weight, see below")
      ->required();
  add_choice<quant::ScaleRule>(
      app, "--rule", options.rule,
      {{"search", quant::ScaleRule::kSearch}, {"amax", quant::ScaleRule::kAmax}},
      "Scales by least squared error, or by the largest value [search]");
  add_size(app, "--shard-size", options.shard_bytes, "Largest file of weights [5G]");
  app->add_option("--threads,-t", options.threads, "Threads; default: all logical CPUs")
      ->check(CLI::Range(1u, 256u));
  app->add_option("--ranks", options.ranks, "Ranks that the printed sizes are divided over")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_flag("--dry-run", options.dry_run,
                "Print sizes by kind and stop; works on a config.json without weights too");
  app->footer(
      recipe_help() +
      "\nExamples:\n"
      "  bulkhead quantize models/GLM-5.2 models/GLM-5.2-INT4 --recipe kimi\n"
      "  bulkhead quantize models/SmolLM2-135M-Instruct.Q4_1.gguf smollm2-fp8 --recipe fp8\n"
      "  bulkhead quantize config.json --recipe kimi --dry-run\n"
      "The result is in public forms (quant_method fp8 or compressed-tensors). transformers 5.24\n"
      "with compressed-tensors 0.20.1 loads it, but for dense layers of two formats; vLLM and\n"
      "SGLang were not tried. Interrupted, the same command goes on.");
}

void add_doctor(CLI::App& root, DoctorOptions& options) {
  CLI::App* app = root.add_subcommand("doctor", "Say what this machine offers and what would help");
  app->add_flag("--json", options.json, "One JSON object instead of the lines");
  app->add_flag("!--no-measure", options.measure,
                "Leave out the half second that measures memory and arithmetic");
  app->footer("Exit code 1 when something makes serving impossible.");
}

void add_drill(CLI::App& root, DrillOptions& options) {
  CLI::App* app = root.add_subcommand(
      "drill", "Damage the cache of a server for tests, class by class, and show what notices");
  CLI::Option* model =
      app->add_option("--model,-m", options.model_path,
                      "GGUF file or directory: starts a server of its own, and ends it")
          ->type_name("PATH")
          ->check(CLI::ExistingPath);
  CLI::Option* url = app->add_option("--url", options.url,
                                     "Or a running server that was started with --inject-faults "
                                     "and that nobody else uses")
                         ->excludes(model);
  app->add_option("--placement", options.placement, "Of its own server")
      ->check(CLI::IsMember({"shared", "split"}))
      ->excludes(url)
      ->capture_default_str();
  app->add_option("--kv-integrity", options.integrity,
                  "Of its own server; off is the control: what happens when nobody checks")
      ->check(CLI::IsMember({"off", "observe", "abort"}))
      ->excludes(url)
      ->capture_default_str();
  app->add_option("--threads,-t", options.threads, "Of its own server; default: all cores")
      ->check(CLI::Range(1u, 256u))
      ->excludes(url);
  app->add_option("--admin-key-file", options.admin_key_file,
                  "File whose first line is the running server's admin key")
      ->type_name("FILE")
      ->check(CLI::ExistingFile)
      ->needs(url);
  app->add_option("--api-key", options.api_key, "Key for requests; default: the admin key")
      ->type_name("KEY")
      ->needs(url);
  app->add_option("--fault", options.faults, "One class of faults; may be repeated; default: all")
      ->check(CLI::IsMember(fault_names()))
      ->allow_extra_args(false);
  app->add_option("--rounds", options.rounds, "Times that each fault is injected")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--json", options.json_path, "Write what was seen here too")->type_name("FILE");
  app->footer(
      "Examples:\n"
      "  bulkhead drill --model models/tiny-moe\n"
      "  bulkhead drill --model models/tiny-moe --kv-integrity off\n"
      "  bulkhead drill --url http://127.0.0.1:30000 --admin-key-file key\n"
      "Prints a Markdown table. Exit code 1 when a row is not what it should be: a fault that was\n"
      "not noticed, an answer of a neighbour that changed, a page that is missing; with off, when\n"
      "no fault did harm.");
}

int refuse(const std::string& message) {
  std::cerr << "error: " << message << '\n';
  return 2;
}

base::Result<serve::Settings> settings_of(TableInput& input) {
  return serve::collect_settings(std::move(input.given), input.config_path,
                                 [](const char* name) -> const char* { return std::getenv(name); });
}

constexpr const char* kNoModel =
    "which model? Name a GGUF file or a directory: bulkhead serve MODEL, or model = \"...\" in the "
    "deployment file";

int start_serve(ServeInput& input) {
  base::Result<serve::Settings> settings = settings_of(input.table);
  if (!settings.ok()) return refuse(settings.error().message);
  if (settings->options.model.model_path.empty()) return refuse(kNoModel);
  settings->options.dry_run = input.dry_run;
  return run_serve(settings->options);
}

int start_generate(GenerateOptions& options, TableInput& input) {
  base::Result<serve::Settings> settings = settings_of(input);
  if (!settings.ok()) return refuse(settings.error().message);
  options.model = settings->options.model;
  if (options.model.model_path.empty()) return refuse(kNoModel);
  return run_generate(options);
}

int start_explain(ExplainInput& input) {
  base::Result<serve::Settings> settings = settings_of(input.table);
  if (!settings.ok()) return refuse(settings.error().message);
  return run_config_explain({std::move(settings).value(), input.json});
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{
      "Bulkhead serves open-weight language models, from one process or several.\n"
      "Start with: bulkhead serve MODEL    then: bulkhead chat"};
  app.name("bulkhead");
  app.set_version_flag("--version", BULKHEAD_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(42);

  ServeInput serve_input;
  ExplainInput explain_input;
  TableInput generate_input;
  ChatOptions chat_options;
  GenerateOptions generate_options;
  InspectOptions inspect_options;
  PlanOptions plan_options;
  QuantizeOptions quantize_options;
  BenchCommands bench_options;
  DoctorOptions doctor_options;
  DrillOptions drill_options;
  EvalCommands eval_options;
  add_serve(app, serve_input);
  add_chat(app, chat_options);
  add_generate(app, generate_options, generate_input);
  add_config(app, explain_input);
  add_inspect(app, inspect_options);
  add_plan(app, plan_options);
  add_quantize(app, quantize_options);
  const CLI::App* bench = add_bench(app, bench_options);
  add_doctor(app, doctor_options);
  add_drill(app, drill_options);
  const CLI::App* eval = add_eval(app, eval_options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (app.got_subcommand("serve")) return start_serve(serve_input);
  if (app.got_subcommand("chat")) return run_chat(chat_options);
  if (app.got_subcommand("generate")) return start_generate(generate_options, generate_input);
  if (app.got_subcommand("config")) return start_explain(explain_input);
  if (app.got_subcommand("inspect")) return run_inspect(inspect_options);
  if (app.got_subcommand("plan")) return run_plan(plan_options);
  if (app.got_subcommand("quantize")) return run_quantize(quantize_options);
  if (app.got_subcommand("doctor")) return run_doctor(doctor_options);
  if (app.got_subcommand("drill")) return run_drill(drill_options);
  if (app.got_subcommand("eval")) return run_eval_command(*eval, eval_options);
  return run_bench(*bench, bench_options);
}

}  // namespace bulkhead::apps
