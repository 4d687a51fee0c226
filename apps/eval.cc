#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <utility>

#include "apps/build_commit.h"
#include "apps/eval/compare.h"
#include "apps/eval/precision/measure.h"
#include "apps/eval/precision/report.h"
#include "apps/eval/progress.h"
#include "apps/eval/suite.h"
#include "apps/eval/text_tools.h"
#include "apps/server_address.h"
#include "commands.h"
#include "model/checkpoint.h"
#include "serve/roles/model_digest.h"

namespace bulkhead::apps {
namespace {

base::Status evaluate(const EvalOptions& options) {
  BH_ASSIGN(const ServerAddress address, parse_server_url(options.url));
  BH_ASSIGN(std::vector<eval::Task> tasks, eval::load_tasks(options));
  BH_ASSIGN(const std::vector<eval::TaskResult> results,
            eval::run_suite(options, std::move(tasks), {address, {}}, {}));
  std::cout << eval::result_text(results) << std::flush;
  return {};
}

// Whether nothing fell that must not.
base::Result<bool> compare_files(const EvalCompareOptions& options) {
  BH_ASSIGN(const std::vector<eval::TaskResult> before, eval::read_result_file(options.before));
  BH_ASSIGN(const std::vector<eval::TaskResult> after, eval::read_result_file(options.after));
  BH_ASSIGN(const eval::ComparedResults compared, eval::compare(before, after));
  std::cout << eval::comparison_text(compared, options.flips_max) << std::flush;
  if (!options.output.empty()) {
    BH_TRY(eval::write_file(options.output, eval::comparison_json(compared)));
  }
  if (!options.fail_on_loss) return true;
  const std::vector<std::string> fallen = eval::losses(compared);
  for (const std::string& name : fallen) std::cerr << "fell by more than chance: " << name << '\n';
  return fallen.empty();
}

base::Result<std::string> digest_of(const std::string& model) {
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(model));
  BH_ASSIGN(const auto digest, serve::roles::model_digest(checkpoint));
  std::string text;
  for (size_t i = 0; i < 8; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ","));
}

// The command that makes this report, of what decides its contents.
std::string command_of(const EvalPrecisionOptions& options) {
  std::string text =
      fmt::format("bulkhead eval precision --model {} --data {} --tasks {} --pairs {} --output {}",
                  options.model_path, options.data, joined(options.tasks), joined(options.pairs),
                  options.output);
  if (options.limit > 0) text += fmt::format(" --limit {}", options.limit);
  if (options.shots >= 0) text += fmt::format(" --shots {}", options.shots);
  if (!options.text.empty()) text += " --text " + options.text;
  if (options.windows != EvalPrecisionOptions{}.windows) {
    text += fmt::format(" --windows {}", options.windows);
  }
  return text;
}

const eval::PrecisionResult* find_result(const eval::PrecisionReport& report,
                                         const eval::Precision* precision) {
  for (const eval::PrecisionResult& one : report.results) {
    if (one.precision == precision) return &one;
  }
  return nullptr;
}

// Of what there is: a run that is interrupted later has told what it had.
base::Status write_report(eval::PrecisionReport& report,
                          const std::vector<eval::PrecisionPair>& pairs,
                          const std::string& folder) {
  report.pairs.clear();
  report.unmeasured.clear();
  for (const eval::PrecisionPair& pair : pairs) {
    const eval::PrecisionResult* before = find_result(report, pair.before);
    const eval::PrecisionResult* after = find_result(report, pair.after);
    if (before == nullptr || after == nullptr) {
      report.unmeasured.push_back(pair.name());
      continue;
    }
    BH_ASSIGN(eval::PairReport made, eval::report_pair(pair, *before, *after));
    report.pairs.push_back(std::move(made));
  }
  BH_TRY(eval::write_file(folder + "/report.md", eval::precision_text(report)));
  BH_TRY(eval::write_file(folder + "/report.json", eval::precision_json(report)));
  for (const auto& [name, svg] : eval::precision_pictures(report)) {
    BH_TRY(eval::write_file(folder + "/" + name, svg));
  }
  return {};
}

// Whether every bound that was judged is kept.
base::Result<bool> compare_precisions(const EvalPrecisionOptions& options) {
  BH_ASSIGN(const auto pairs, eval::parse_pairs(options.pairs));
  BH_ASSIGN(const std::string digest, digest_of(options.model_path));
  BH_ASSIGN(const eval::Measurement measurement, eval::plan_measurement(options, digest));
  std::error_code bad;
  std::filesystem::create_directories(options.output, bad);
  if (bad) {
    return base::invalid_argument(
        "--output", fmt::format("{} is no folder to write to: {}", options.output, bad.message()));
  }
  eval::PrecisionReport report;
  report.model = std::filesystem::path(options.model_path).lexically_normal().filename().string();
  report.command = command_of(options);
  report.program = fmt::format("bulkhead {} ({})", BULKHEAD_VERSION, build_commit());
  report.drift_text = std::filesystem::path(eval::drift_path(options)).filename().string();
  const std::vector<const eval::Precision*> precisions = eval::needed(pairs);
  if (options.restart) {
    for (const eval::Precision* one : precisions) eval::forget(options, *one);
  }
  std::string hint;
  for (size_t i = 0; i < precisions.size(); ++i) {
    std::cerr << fmt::format("[{}/{}] {}: {}{}\n", i + 1, precisions.size(), precisions[i]->name,
                             precisions[i]->meaning, hint);
    const auto start = std::chrono::steady_clock::now();
    BH_ASSIGN(eval::PrecisionResult result, eval::measure(measurement, *precisions[i]));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    hint = fmt::format(" (the one before took {})", eval::duration_text(took.count()));
    report.results.push_back(std::move(result));
    BH_TRY(write_report(report, pairs, options.output));
  }
  std::cout << eval::verdicts_text(report) << "\nAll of it: " << options.output << "/report.md\n"
            << std::flush;
  return !eval::any_missed(report);
}

bool is_wrong_input(base::ErrorCode code) {
  return code == base::ErrorCode::kInvalidArgument || code == base::ErrorCode::kNotFound ||
         code == base::ErrorCode::kUnsupported || code == base::ErrorCode::kCorruptData;
}

// The exit code of an error.
int told(const base::Error& error) {
  std::cerr << "error: " << error.message << '\n';
  return is_wrong_input(error.code) ? 2 : 1;
}

}  // namespace

int run_eval(const EvalOptions& options) {
  const base::Status status = evaluate(options);
  if (status.ok()) return 0;
  const int code = told(status.error());
  if (code == 1 && !options.output.empty()) {
    std::cerr << "what is done is kept: the same command goes on\n";
  }
  return code;
}

int run_eval_compare(const EvalCompareOptions& options) {
  const base::Result<bool> good = compare_files(options);
  if (!good.ok()) return told(good.error());
  return *good ? 0 : 1;
}

int run_eval_precision(const EvalPrecisionOptions& options) {
  const base::Result<bool> good = compare_precisions(options);
  if (good.ok()) return *good ? 0 : 1;
  const int code = told(good.error());
  if (code == 1) std::cerr << "what is done is kept: the same command goes on\n";
  return code;
}

}  // namespace bulkhead::apps
