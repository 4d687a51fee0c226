#include "sim/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/rng.h"
#include "sim/explore.h"
#include "sim/swarm.h"

namespace bulkhead::sim {
namespace {

using kv::integrity::Mode;

// Tries at one fault of a class: in some runs nobody offers a victim.
constexpr uint64_t kTriesPerFault = 4;
constexpr size_t kFailuresKept = 20;

// Which opportunity of the kind is taken: among those that a run of this length surely has.
uint64_t opportunities(FaultKind kind, Placement placement) {
  if (is_of_memory(kind)) return placement == Placement::kRemote ? 250 : 300;
  if (is_of_processes(kind)) return 200;
  return damages_pages(kind) ? 120 : 400;
}

uint64_t steps_of(Placement placement) { return placement == Placement::kRemote ? 1200 : 500; }

// Short answers and small pools: pages come back at once, and to somebody else.
SwarmConfig campaign_config(uint64_t seed, FaultKind kind) {
  base::Rng rng(seed, 0xca);
  const auto between = [&rng](int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng.below(static_cast<uint64_t>(high - low) + 1));
  };
  SwarmConfig config;
  config.seed = seed;
  const bool remote = !is_of_memory(kind) || rng.below(6) == 0;
  config.placement = remote              ? Placement::kRemote
                     : rng.below(2) == 0 ? Placement::kShared
                                         : Placement::kSplit;
  config.integrity = Mode::kAbort;
  config.pages = between(16, 48);
  config.prefill_pages = between(12, 48);
  config.layers = between(1, 2);
  config.prefix_cache = rng.below(4) != 0;
  config.key_bits = rng.below(2) == 0 ? 256 : between(2, 8);
  config.chunk_tokens = between(24, 64);
  config.running_max = static_cast<uint32_t>(between(6, 12));
  config.sequences_max = static_cast<uint32_t>(between(4, 8));
  config.prefill_workers = static_cast<uint32_t>(between(1, 2));
  config.decode_workers = static_cast<uint32_t>(between(1, 2));
  config.wire_chunk_bytes = 256u << rng.below(3);
  config.wire_room = 32;
  config.window_frames = 16;
  config.concurrency = static_cast<uint32_t>(between(8, 16));
  config.tenants = static_cast<uint32_t>(between(1, 3));
  config.families = static_cast<uint32_t>(between(1, 3));
  config.prompt_pages = between(2, 3);
  config.answer_max = between(2, 6);
  return config;
}

struct Twins {
  RunResult clean;
  RunResult faulty;
};

class Campaign {
 public:
  Campaign(const CampaignOptions& options, std::ostream& progress)
      : options_(options), progress_(progress) {}

  Matrix run() {
    for (size_t i = 0; i < kFaultKinds; ++i) {
      MatrixRow row;
      row.kind = static_cast<FaultKind>(i);
      const uint64_t tries = kTriesPerFault * options_.faults;
      for (uint64_t n = 0; n < tries && row.struck < options_.faults; ++n) {
        strike(row, base::random_bits(options_.seed, i, n));
      }
      progress_ << fmt::format("{}: {} struck, {} noticed, {} harmless, {} silent\n",
                               to_string(row.kind), row.struck, row.noticed, row.harmless,
                               row.silent)
                << std::flush;
      matrix_.rows.push_back(row);
    }
    return std::move(matrix_);
  }

 private:
  void strike(MatrixRow& row, uint64_t seed) {
    SwarmConfig config = campaign_config(seed, row.kind);
    RunOptions options;
    options.steps = steps_of(config.placement);
    options.audit_every = 16;
    const RunResult clean = run_clean(config, options);
    if (clean.failure) return;

    const uint64_t most = opportunities(row.kind, config.placement);
    options.only = {{row.kind, 1 + base::random_bits(seed, 0xf, 0) % most}};
    config.rates[static_cast<size_t>(row.kind)] = 1.0;
    options.tolerate_wrong_tokens = !is_promised(row.kind);
    const RunResult faulty = run_apart(config, options);
    ++matrix_.runs;
    matrix_.totals.add(faulty.stats);
    // One that was ordered and found no victim did not strike.
    if (!faulty.failure && faulty.stats.struck == 0) return;
    ++row.struck;
    judge(row, config, options, {clean, faulty});
    if (is_of_memory(row.kind)) watch_only(row, config, options);
  }

  RunResult run_clean(const SwarmConfig& config, const RunOptions& options) {
    RunResult clean = run_apart(config, options);
    ++matrix_.runs;
    ++matrix_.clean_runs;
    matrix_.totals.add(clean.stats);
    matrix_.clean.add(clean.stats);
    if (clean.failure) {
      ++matrix_.false_alarms;
      keep(config, options, clean);
    }
    return clean;
  }

  void judge(MatrixRow& row, const SwarmConfig& config, const RunOptions& options,
             const Twins& twins) {
    if (twins.faulty.failure) {
      ++row.silent;
      keep(config, options, twins.faulty);
      return;
    }
    bool noticed = false;
    for (size_t i = 0; i < kMechanisms; ++i) {
      const bool more = twins.faulty.stats.noticed[i] > twins.clean.stats.noticed[i];
      row.by[i] += more ? 1 : 0;
      noticed = noticed || more;
    }
    if (twins.faulty.stats.wrong_tokens > 0) {
      ++row.silent;  // or noticed too late
    } else if (noticed) {
      ++row.noticed;
    } else {
      ++row.harmless;
    }
  }

  // The same with nobody to end what fails: what would have got out.
  void watch_only(MatrixRow& row, SwarmConfig config, RunOptions options) {
    config.integrity = Mode::kObserve;
    options.tolerate_wrong_tokens = true;
    const RunResult result = run_apart(config, options);
    ++matrix_.runs;
    matrix_.totals.add(result.stats);
    if (result.stats.wrong_tokens > 0) ++row.leaks_unwatched;
  }

  void keep(const SwarmConfig& config, const RunOptions& options, const RunResult& result) {
    if (matrix_.failures.size() >= kFailuresKept) return;
    std::string text = fmt::format("seed {}, {} steps, {}: {}", config.seed, options.steps,
                                   describe(config), *result.failure);
    for (const Fault& fault : result.faults) text += "; " + describe(fault);
    progress_ << "FAILED: " << text << "\n" << std::flush;
    matrix_.failures.push_back(std::move(text));
  }

  const CampaignOptions options_;
  std::ostream& progress_;
  Matrix matrix_;
};

std::string percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.0f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

bool Matrix::passed() const {
  return false_alarms == 0 && std::all_of(rows.begin(), rows.end(), [](const MatrixRow& row) {
           return row.silent == 0 || !is_promised(row.kind);
         });
}

Matrix run_campaign(const CampaignOptions& options, std::ostream& progress) {
  return Campaign(options, progress).run();
}

std::string to_markdown(const Matrix& matrix) {
  std::string text = "| fault | struck | noticed | harmless | silent | leaks unwatched |";
  for (size_t i = 0; i < kMechanisms; ++i) {
    text += fmt::format(" {} |", to_string(static_cast<Mechanism>(i)));
  }
  text += "\n|---|";
  for (size_t i = 0; i < 5 + kMechanisms; ++i) text += "---|";
  text += "\n";
  uint64_t struck = 0;
  uint64_t silent = 0;
  for (const MatrixRow& row : matrix.rows) {
    struck += row.struck;
    silent += row.silent;
    const std::string leaks =
        is_of_memory(row.kind) ? percent(row.leaks_unwatched, row.struck) : "-";
    text += fmt::format("| {} | {} | {} | {} | {} | {} |", to_string(row.kind), row.struck,
                        row.noticed, row.harmless, row.silent, leaks);
    for (const uint64_t count : row.by) text += count == 0 ? " |" : fmt::format(" {} |", count);
    text += "\n";
  }
  const RunStats& totals = matrix.totals;
  text += fmt::format(
      "\n{} runs, {} pages taken from a pool, {} faults in {} classes, {} silent; {} clean runs "
      "with "
      "{} checks of {} entries, {} false alarms; {} requests, {} token rows.\n",
      matrix.runs, totals.pages, struck, matrix.rows.size(), silent, matrix.clean_runs,
      matrix.clean.checks, matrix.clean.entries, matrix.false_alarms, totals.requests,
      totals.tokens);
  return text;
}

}  // namespace bulkhead::sim
