#include "cli_eval.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "apps/eval/precision/precisions.h"
#include "apps/eval/tasks/catalog.h"
#include "cli_checks.h"

namespace bulkhead::apps {
namespace {

void add_eval_server(CLI::App* app, EvalOptions& options) {
  add_server(app, options);
  app->add_option("--model,-m", options.model, "Model to ask for; default: the first listed");
  app->add_option("--concurrency", options.concurrency, "Questions asked at once")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app->add_option("--timeout", options.timeout_seconds, "Seconds that one request may take")
      ->check(in_range(0.1, 86'400.0))
      ->capture_default_str();
  app->add_option("--retries", options.retries,
                  "Times that a request is sent again which failed for a reason that may pass")
      ->check(CLI::Range(0u, 100u))
      ->capture_default_str();
}

std::string task_help() {
  std::string text = "TASK:";
  for (const eval::TaskEntry& entry : eval::task_catalog()) {
    text += fmt::format("\n  {}: {}", entry.name, entry.meaning);
  }
  return text;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  names.reserve(eval::task_catalog().size());
  for (const eval::TaskEntry& entry : eval::task_catalog()) names.emplace_back(entry.name);
  return names;
}

void add_eval_compare(CLI::App* eval, EvalCompareOptions& options) {
  CLI::App* app = eval->add_subcommand(
      "compare", "Two results of the same questions: differences, and whether they can be chance");
  app->add_option("before", options.before, "Result file")
      ->required()
      ->type_name("A.json")
      ->check(CLI::ExistingFile);
  app->add_option("after", options.after, "Result file")
      ->required()
      ->type_name("B.json")
      ->check(CLI::ExistingFile);
  app->add_option("--flips", options.flips_max, "Flipped questions to name, of each kind")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1'000'000}))
      ->capture_default_str();
  app->add_option("--output,-o", options.output, "Write all of it here")->type_name("JSON");
  app->add_flag("--fail-on-loss", options.fail_on_loss,
                "Exit with 1 when a share fell by more than chance: its interval is below 0");
  app->footer(
      "Differences are B less A. The interval is Newcombe's for paired shares (1998, method 10), "
      "p\n"
      "that of McNemar's exact test; lost is right in A and wrong in B, gained the other way "
      "round.");
}

std::string precision_help() {
  std::string text = "PRECISION:";
  for (const eval::Precision& one : eval::precisions()) {
    text += fmt::format("\n  {}: {}", one.name, one.meaning);
  }
  return text;
}

void add_precision_means(CLI::App* app, EvalPrecisionOptions& options) {
  app->add_option("--limit", options.limit,
                  "Questions of each task, evenly spread and always the same; default: all")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}));
  app->add_option("--shots", options.shots, "Examples before a question; default: the task's")
      ->check(CLI::Range(0, 1000));
  app->add_option("--concurrency", options.concurrency, "Questions asked at once")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app->add_option("--threads,-t", options.threads, "Of the servers; default: all cores")
      ->check(CLI::Range(1u, 256u));
  app->add_option("--timeout", options.timeout_seconds, "Seconds that one request may take")
      ->check(in_range(0.1, 86'400.0))
      ->capture_default_str();
  app->add_option("--text", options.text,
                  "Text whose drift is measured; default: text/wikitext-2-test.txt of the data")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app->add_option("--windows", options.windows, "Stretches of 512 tokens of that text")
      ->check(CLI::Range(size_t{1}, size_t{1024}))
      ->capture_default_str();
  app->add_flag("--restart", options.restart, "Drop what earlier runs left of these precisions");
}

void add_eval_precision(CLI::App* eval, EvalPrecisionOptions& options) {
  CLI::App* app = eval->add_subcommand(
      "precision", "Compare precisions of one model: accuracy, tool calls, drift, with verdicts");
  app->add_option("--model,-m", options.model_path,
                  "GGUF file or directory; a server is started "
                  "for each precision, and ended")
      ->required()
      ->type_name("PATH")
      ->check(CLI::ExistingPath);
  app->add_option("--tasks", options.tasks, "Tasks of `bulkhead eval`, with commas between them")
      ->required()
      ->delimiter(',')
      ->type_name("TASKS")
      ->check(CLI::IsMember(task_names()));
  app->add_option("--pairs", options.pairs, "BEFORE/AFTER, with commas between them, see below")
      ->delimiter(',')
      ->type_name("PAIRS")
      ->capture_default_str();
  app->add_option("--output,-o", options.output,
                  "Folder of the report and of each precision's result; what it has is not "
                  "measured again")
      ->required()
      ->type_name("FOLDER");
  app->add_option("--data", options.data, "Folder with eval/ and text/, as docs/eval.md says")
      ->envname("BULKHEAD_DATA")
      ->type_name("DIR")
      ->capture_default_str();
  add_precision_means(app, options);
  app->footer(
      precision_help() +
      "\nExample:\n"
      "  bulkhead eval precision --model models/tiny-moe --data data --tasks conversations "
      "\\\n"
      "    --pairs bf16/fp8kv,fp8/int4 --output precision\n"
      "Interrupted, the same command goes on. Exit code 1 when a bound is missed or a server "
      "fails,\n"
      "2 when data or options are wrong.");
}

}  // namespace

CLI::App* add_eval(CLI::App& root, EvalCommands& commands) {
  EvalOptions& options = commands.run;
  CLI::App* app = root.add_subcommand(
      "eval", "Ask a running OpenAI-compatible server the questions of benchmarks, and score them");
  app->add_option("task", options.tasks, "Tasks, see below")
      ->type_name("TASK")
      ->check(CLI::IsMember(task_names()));
  add_eval_server(app, options);
  app->add_option("--data", options.data, "Folder with eval/ and text/, as docs/eval.md says")
      ->envname("BULKHEAD_DATA")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--limit", options.limit,
                  "Questions of each task, evenly spread and always the same; default: all")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}));
  app->add_option("--shots", options.shots, "Examples before a question; default: the task's")
      ->check(CLI::Range(0, 1000));
  app->add_option("--max-length", options.max_length,
                  "Most tokens of prompt and answer; default: what the server says")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 24));
  app->add_flag("--slow-choices", options.slow_choices,
                "Score each letter by a prompt of its own, not by the likeliest next tokens");
  app->add_option("--output,-o", options.output,
                  "Write every question with its answer here; FILE.journal beside it keeps what is "
                  "done, and the same command goes on from it")
      ->type_name("JSON");
  app->add_flag("--restart", options.restart, "Drop what an interrupted run left");
  add_eval_compare(app, commands.compare);
  add_eval_precision(app, commands.precision);
  app->footer(task_help() +
              "\nExamples:\n"
              "  bulkhead eval gsm8k mmlu --data data --output bf16.json\n"
              "  bulkhead eval compare bf16.json fp8.json\n"
              "Exit code 1 when the server fails, 2 when data or options are wrong.");
  return app;
}

int run_eval_command(const CLI::App& app, const EvalCommands& commands) {
  if (app.got_subcommand("compare")) return run_eval_compare(commands.compare);
  if (app.got_subcommand("precision")) return run_eval_precision(commands.precision);
  return run_eval(commands.run);
}

}  // namespace bulkhead::apps
