// bulkhead_sim: runs the simulator over seeds and says which of them fail, and why.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "sim/campaign.h"
#include "sim/explore.h"

namespace bulkhead::sim {
namespace {

constexpr std::string_view kUsage =
    "usage: bulkhead_sim [--seed S] [--steps N] [--seeds K] [--seconds T] [--verbose]\n"
    "       bulkhead_sim --campaign F [--seed S]\n"
    "  Runs K seeds from S on, or as many as T seconds allow, each for N steps of its processes.\n"
    "  A failure prints its seed, its configuration and the faults that it needs.\n"
    "  A campaign strikes F times with each class of faults, one a run, and prints what noticed\n"
    "  them as a table. The same F and S (1 where none is given) print the same table again; each\n"
    "  run that fails is told on stderr with its seed and its fault. Exit status 1: a fault went\n"
    "  unnoticed and did harm, or something was noticed where there was none.\n";

struct Arguments {
  uint64_t seed = 1;
  uint64_t steps = 2000;
  uint64_t seeds = 1;
  std::optional<double> seconds;
  uint64_t campaign = 0;
  bool verbose = false;
  bool help = false;
};

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--help") {
      out.help = true;
      continue;
    }
    if (name == "--verbose") {
      out.verbose = true;
      continue;
    }
    const auto value = i + 1 < argc ? number(argv[++i]) : std::nullopt;
    if (!value) return std::nullopt;
    if (name == "--seed") {
      out.seed = *value;
    } else if (name == "--steps") {
      out.steps = *value;
    } else if (name == "--campaign") {
      out.campaign = *value;
    } else if (name == "--seeds") {
      out.seeds = *value;
    } else if (name == "--seconds") {
      out.seconds = static_cast<double>(*value);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

void print_totals(uint64_t runs, uint64_t faults, const RunStats& s, double seconds) {
  std::cout << fmt::format(
      "{} seeds, {} faults, {} steps, {} requests ({} answered, {} cut, {} failed, {} of them "
      "kv_integrity, {} lost with their gateway), {} token rows, {} tokens told, {} pages taken, "
      "{} evicted, {} preemptions, {} cached tokens, {} audits, {} page checks, {:.0f} s of "
      "virtual time in {:.1f} "
      "s, {:.0f} token rows/s\n",
      runs, faults, s.steps, s.requests, s.answered, s.cut, s.failed, s.integrity, s.lost, s.tokens,
      s.answer_tokens, s.pages, s.evicted_pages, s.preemptions, s.cached_tokens, s.audits, s.checks,
      s.virtual_seconds, seconds, static_cast<double>(s.tokens) / std::max(seconds, 1e-9));
}

int run_matrix(const Arguments& arguments) {
  const Matrix matrix =
      run_campaign({.seed = arguments.seed, .faults = arguments.campaign}, std::cerr);
  std::cout << to_markdown(matrix);
  return matrix.passed() ? 0 : 1;
}

int run(const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  RunOptions options;
  options.steps = arguments.steps;
  RunStats totals;
  uint64_t faults = 0;
  uint64_t runs = 0;
  int failures = 0;
  const auto goes_on = [&] {
    return arguments.seconds ? elapsed() < *arguments.seconds : runs < arguments.seeds;
  };
  for (; goes_on(); ++runs) {
    const SwarmConfig config = draw_config(arguments.seed + runs);
    if (arguments.verbose) {
      std::cout << fmt::format("seed {}: {}\n", config.seed, describe(config)) << std::flush;
    }
    RunResult result = run_apart(config, options);
    totals.add(result.stats);
    faults += result.faults.size();
    if (!result.failure) continue;
    ++failures;
    print_failure(std::cout, config, options, minimise(config, options, std::move(result)));
  }
  print_totals(runs, faults, totals, elapsed());
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace bulkhead::sim

int main(int argc, char** argv) {
  const auto arguments = bulkhead::sim::parse(argc, argv);
  if (!arguments) {
    std::cerr << bulkhead::sim::kUsage;
    return 2;
  }
  if (arguments->help) {
    std::cout << bulkhead::sim::kUsage;
    return 0;
  }
  return arguments->campaign > 0 ? bulkhead::sim::run_matrix(*arguments)
                                 : bulkhead::sim::run(*arguments);
}
