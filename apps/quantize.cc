#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "apps/quantize/source_files.h"
#include "apps/quantize/tables.h"
#include "base/units.h"
#include "commands.h"
#include "device/thread_pool.h"
#include "model/checkpoint.h"
#include "model/weight_recipe.h"
#include "model/write/quantise.h"
#include "serve/roles/model_digest.h"

namespace bulkhead::apps {
namespace {

namespace write = model::write;
using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t interrupted = 0;

// One line that is written over on a terminal; elsewhere one every ten seconds.
class ProgressLine {
 public:
  ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

  void show(const write::QuantiseProgress& counts) {
    const Clock::time_point now = Clock::now();
    const bool done = counts.tensors_done == counts.tensors_total;
    const auto every = terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10);
    if (!done && now - last_ < every) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const uint64_t written = counts.bytes_done - counts.bytes_found;
    const double rate = seconds > 0.0 ? static_cast<double>(written) / seconds : 0.0;
    const double left =
        rate > 0.0 ? static_cast<double>(counts.bytes_total - counts.bytes_done) / rate : 0.0;
    const std::string line =
        fmt::format("{:3} %  {} of {} tensors, {} of {}, {}/s, {:.0f} s left",
                    counts.bytes_done * 100 / std::max<uint64_t>(counts.bytes_total, 1),
                    counts.tensors_done, counts.tensors_total,
                    base::format_bytes(counts.bytes_done), base::format_bytes(counts.bytes_total),
                    base::format_bytes(static_cast<uint64_t>(rate)), left);
    std::cerr << (terminal_ ? "\r\x1b[K" : "") << line << (terminal_ && !done ? "" : "\n")
              << std::flush;
  }

 private:
  const bool terminal_;
  const Clock::time_point start_;
  Clock::time_point last_;
};

int fail(const base::Error& error, int code = 1) {
  std::cerr << "error: " << error.message << '\n';
  return code;
}

base::Status write_out(const QuantizeOptions& options, const model::Checkpoint& checkpoint,
                       const write::WritePlan& plan) {
  BH_ASSIGN(write::SideFiles side, read_side_files(checkpoint, options.path));
  if (checkpoint.origin().empty()) {  // else the file is among those carried over
    BH_ASSIGN(const std::string origin, serve::roles::weights_digest(checkpoint));
    side.files.push_back({std::string(model::kOriginFile), origin + "\n"});
  }
  device::ThreadPool pool(
      {.threads = options.threads == 0 ? std::thread::hardware_concurrency() : options.threads,
       .scratch_bytes = 0});
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::signal(SIGTERM, [](int) { interrupted = 1; });
  ProgressLine line;
  BH_ASSIGN(const auto errors, write::quantise(checkpoint, plan, side, options.out, pool,
                                               [&line](const write::QuantiseProgress& counts) {
                                                 line.show(counts);
                                                 return interrupted == 0;
                                               }));
  std::cout << error_tables(plan, errors);
  std::cout << fmt::format("{} is ready: {}; every tensor's error is in quantize-report.json\n",
                           options.out, base::format_bytes(plan.file_bytes()));
  return {};
}

base::Status quantize_checkpoint(const QuantizeOptions& options,
                                 const write::QuantiseOptions& wanted) {
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(options.path));
  BH_ASSIGN(const write::WritePlan plan, write::build_plan(checkpoint, wanted));
  std::cout << plan_table(plan, options.ranks);
  if (!options.out.empty()) {
    BH_ASSIGN(const uint64_t left, write::bytes_left(plan, options.out));
    if (left < plan.file_bytes()) {
      std::cout << fmt::format("{} holds an unfinished run of this: {} are left to write\n",
                               options.out, base::format_bytes(left));
    }
  }
  if (options.dry_run) return {};
  return write_out(options, checkpoint, plan);
}

}  // namespace

int run_quantize(const QuantizeOptions& options) {
  const auto recipe = model::parse_recipe(options.recipe);
  if (!recipe.ok()) return fail(recipe.error(), 2);
  if (options.out.empty() && !options.dry_run) {
    return fail(base::invalid_argument("out",
                                       "OUT is missing: the directory to write, or give "
                                       "--dry-run"),
                2);
  }
  const auto bare = bare_config(options.path);
  if (!bare.ok()) return fail(bare.error());
  if (*bare) {
    if (!options.dry_run) {
      return fail(base::invalid_argument(
          "path", fmt::format("{}: has no weights; --dry-run tells their sizes", options.path)));
    }
    std::cout << config_table(**bare, *recipe, options.ranks);
    return 0;
  }
  const write::QuantiseOptions wanted = {
      .recipe = *recipe, .rule = options.rule, .shard_bytes = options.shard_bytes};
  const base::Status status = quantize_checkpoint(options, wanted);
  return status.ok() ? 0 : fail(status.error());
}

}  // namespace bulkhead::apps
