#include "apps/eval/precision/measure.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "apps/eval/progress.h"
#include "apps/eval/suite.h"
#include "apps/eval/tasks/data_files.h"
#include "apps/eval/text_tools.h"
#include "apps/own_server/own_server.h"

namespace bulkhead::apps::eval {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr Source kText{"wiki.test.tokens as wikitext-2-test.txt", "pytorch/examples"};

std::string result_path(const EvalPrecisionOptions& options, const Precision& precision) {
  return fmt::format("{}/{}.json", options.output, precision.name);
}

std::string likely_path(const EvalPrecisionOptions& options, const Precision& precision) {
  return fmt::format("{}/{}.likely.json", options.output, precision.name);
}

EvalOptions suite_options(const EvalPrecisionOptions& options, const Precision& precision) {
  EvalOptions out;
  out.tasks = options.tasks;
  out.data = options.data;
  out.limit = options.limit;
  out.shots = options.shots;
  out.concurrency = options.concurrency;
  out.timeout_seconds = options.timeout_seconds;
  out.output = result_path(options, precision);
  return out;
}

std::vector<std::pair<std::string, std::string>> deployment_settings(const Measurement& measurement,
                                                                     const Precision& precision) {
  auto settings = settings_of(precision);
  settings.emplace_back("checkpoint", measurement.checkpoint);
  return settings;
}

std::string likely_identity(const Measurement& measurement, const Precision& precision) {
  Task text;
  for (const std::string& stretch : measurement.stretches) {
    text.questions.push_back({"", "", RollingAsk{stretch}, "", {}});
  }
  std::string out = fmt::format("text {}, {} stretches of {} tokens", fingerprint(text),
                                measurement.stretches.size(), kForcedTokens);
  for (const auto& [name, value] : deployment_settings(measurement, precision)) {
    out += fmt::format(", {} {}", name, value);
  }
  return out;
}

base::Error damaged(base::Error error, const std::string& path) {
  return base::corrupt(fmt::format("{}: {}; remove the file, and the precision is measured again",
                                   path, error.message));
}

base::Result<std::vector<TaskResult>> known_results(const std::string& path) {
  if (!fs::exists(path)) return std::vector<TaskResult>();
  BH_ASSIGN(const std::string text, read_file(path));
  base::Result<std::vector<TaskResult>> read = read_result(text);
  if (!read.ok()) return damaged(std::move(read).error(), path);
  return read;
}

base::Result<std::optional<LikelySample>> known_likely(const std::string& path,
                                                       const std::string& identity) {
  if (!fs::exists(path)) return std::optional<LikelySample>();
  BH_ASSIGN(const std::string text, read_file(path));
  base::Result<LikelySample> read = read_likely(text);
  if (!read.ok()) return damaged(std::move(read).error(), path);
  if (read->identity != identity) {
    return base::invalid_argument(
        "--output", fmt::format("{} was made by other means ({}; now {}); name another --output, "
                                "or remove it",
                                path, read->identity, identity));
  }
  return std::optional(std::move(read).value());
}

// The lines in which a server tells its plan, before it loads anything.
std::vector<std::string> banner_of(const std::string& said) {
  std::vector<std::string> out;
  for (const std::string_view line : lines_of(said)) {
    if (line.rfind("  loading ", 0) == 0) break;
    if (line.rfind("  ", 0) == 0) out.emplace_back(line.substr(2));
  }
  return out;
}

base::Result<std::unique_ptr<OwnServer>> start_server(const Measurement& measurement,
                                                      const Precision& precision) {
  // Examples end anywhere in a page, and what lies behind its last whole page is computed for each
  // question again.
  std::vector<std::string> words = {"--model", measurement.options.model_path, "--page-size", "16"};
  const std::vector<std::string> formats = words_of(precision);
  words.insert(words.end(), formats.begin(), formats.end());
  if (measurement.options.threads > 0) {
    words.push_back("--threads");
    words.push_back(std::to_string(measurement.options.threads));
  }
  return OwnServer::start({words, {}});
}

base::Result<LikelySample> sample_likely(const Measurement& measurement, const Precision& precision,
                                         const OwnServer& own, const ServerAddress& address) {
  const EvalOptions options = suite_options(measurement.options, precision);
  Server server(transport_to(options, address),
                {0, [](std::chrono::milliseconds) { return false; }});
  BH_ASSIGN(const ServerFacts facts, look_at(server, {"", 0, true, false}));
  const Clock::time_point start = Clock::now();
  const size_t total = measurement.stretches.size();
  size_t tenths = 0;
  LikelySample sample{likely_identity(measurement, precision), banner_of(own.first_words()), {}};
  BH_ASSIGN(
      sample.windows, measure_likely(server, facts, measurement.stretches, [&](size_t done) {
        if (10 * done / total == tenths) return;
        tenths = 10 * done / total;
        const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
        const double left = elapsed / static_cast<double>(done) * static_cast<double>(total - done);
        std::cerr << fmt::format("drift {} of {}, {} left\n", done, total, duration_text(left));
      }));
  return sample;
}

// The error of a server that has ended tells how, and what it said.
base::Error with_last_words(base::Error error, OwnServer& server) {
  const std::string how = server.ended(std::chrono::milliseconds(100));
  if (!how.empty()) {
    error.message += fmt::format("\nthe server ended ({}). It said:\n{}", how, server.last_words());
  }
  return error;
}

}  // namespace

std::string drift_path(const EvalPrecisionOptions& options) {
  return options.text.empty() ? options.data + "/text/wikitext-2-test.txt" : options.text;
}

base::Result<Measurement> plan_measurement(const EvalPrecisionOptions& options,
                                           std::string checkpoint) {
  EvalOptions suite;
  suite.tasks = options.tasks;
  suite.data = options.data;
  suite.shots = options.shots;
  BH_ASSIGN(std::vector<Task> tasks, load_tasks(suite));
  const std::string path = drift_path(options);
  BH_ASSIGN(const std::string text,
            options.text.empty() ? read_data(path, kText) : read_file(path));
  return Measurement{options, std::move(checkpoint), std::move(tasks),
                     stretches_of(text, options.windows)};
}

base::Result<PrecisionResult> measure(const Measurement& measurement, const Precision& precision) {
  const EvalOptions options = suite_options(measurement.options, precision);
  const std::string identity = likely_identity(measurement, precision);
  const std::string path = likely_path(measurement.options, precision);
  BH_ASSIGN(std::vector<TaskResult> known, known_results(options.output));
  BH_ASSIGN(std::optional<LikelySample> likely, known_likely(path, identity));
  Deployment deployment;
  deployment.settings = deployment_settings(measurement, precision);
  BH_ASSIGN(const bool answered, answers_all(options, measurement.tasks, deployment, known));
  if (answered && likely) return PrecisionResult{&precision, std::move(known), *std::move(likely)};
  BH_ASSIGN(const std::unique_ptr<OwnServer> server, start_server(measurement, precision));
  deployment.address = {"127.0.0.1", server->port()};
  if (!likely) {
    base::Result<LikelySample> sampled =
        sample_likely(measurement, precision, *server, deployment.address);
    if (!sampled.ok()) return with_last_words(std::move(sampled).error(), *server);
    BH_TRY(write_file(path, likely_json(*sampled)));
    likely.emplace(std::move(sampled).value());
  }
  if (!answered) {
    base::Result<std::vector<TaskResult>> asked =
        run_suite(options, measurement.tasks, deployment, std::move(known));
    if (!asked.ok()) return with_last_words(std::move(asked).error(), *server);
    known = std::move(asked).value();
  }
  return PrecisionResult{&precision, std::move(known), *std::move(likely)};
}

void forget(const EvalPrecisionOptions& options, const Precision& precision) {
  std::error_code ignored;
  fs::remove(result_path(options, precision), ignored);
  fs::remove(result_path(options, precision) + ".journal", ignored);
  fs::remove(likely_path(options, precision), ignored);
}

}  // namespace bulkhead::apps::eval
