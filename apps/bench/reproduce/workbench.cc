#include "apps/bench/reproduce/workbench.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <utility>

#include "apps/bench/reproduce/table_history.h"
#include "apps/bench/reproduce/table_json.h"
#include "model/loader.h"

namespace bulkhead::apps::reproduce {
namespace {

// One forward takes a chunk of a prompt or a row of so many requests.
constexpr int32_t kRowsMax = 512;
constexpr int32_t kSequencesMax = 64;

// Where a model lies: in the folder of the run, or in that of the checkout this was built from.
std::filesystem::path find_model(const ReproduceOptions& options, const std::string& name) {
  const std::filesystem::path given = std::filesystem::path(options.models) / name;
  std::error_code ignored;
  if (std::filesystem::exists(given, ignored)) return given;
  const auto own = std::filesystem::path(BULKHEAD_SOURCE_DIR) / "models" / name;
  return std::filesystem::exists(own, ignored) ? own : given;
}

std::string cure_of(const std::string& name, const std::filesystem::path& path) {
  if (name == kTinyMoe) return fmt::format("\n  cp -r CHECKOUT/models/{} {}", name, path.string());
  return fmt::format("\n  .venv/bin/python tools/checkpoints/make_random_checkpoint.py {} {}", name,
                     path.string());
}

base::Status check_models(const ReproduceOptions& options) {
  std::string missing;
  for (const std::string& name : models_to_load(options)) {
    std::error_code ignored;
    const std::filesystem::path path = find_model(options, name);
    if (!std::filesystem::exists(path, ignored)) missing += cure_of(name, path);
  }
  if (missing.empty()) return {};
  return base::invalid_argument("--models", "these models are not there yet; make them with" +
                                                missing + "\nor name their folder with --models");
}

}  // namespace

Workbench::Workbench(const ReproduceOptions& options, device::CpuFacts cpu,
                     kernels::KernelSet kernels, std::ostream& log)
    : options_(options),
      cpu_(std::move(cpu)),
      kernels_(std::move(kernels)),
      bounds_(bounds_of(kernels_.isa)),
      threads_({.threads = options.threads > 0 ? options.threads : cpu_.logical_cpus}),
      log_(log) {}

base::Result<std::unique_ptr<Workbench>> Workbench::make(const ReproduceOptions& options,
                                                         std::ostream& log) {
  BH_TRY(check_models(options));
  device::CpuFacts cpu = device::detect_cpu();
  device::Isa isa = device::best_isa(cpu);
  if (!options.isa.empty()) {
    BH_ASSIGN(isa, device::parse_isa(options.isa));
  }
  if (isa == device::Isa::kRef) {
    return base::unsupported("this needs the vector units of AVX2 at least, and there are none");
  }
  BH_ASSIGN(kernels::KernelSet kernels, kernels::select_kernels(cpu, isa));
  std::unique_ptr<Workbench> out(new Workbench(options, std::move(cpu), std::move(kernels), log));
  if (options.quick) {
    out->options_.rounds = 3;
    out->options_.context = 96;
    out->bounds_.weights_context = 96;
    // The tiny models have few values to an exponent.
    out->bounds_.resident_tokens = 1.96;
  }
  out->say("measuring the machine's peaks");
  out->peaks_ = bench::measure_peaks(isa, out->threads_);
  return out;
}

std::filesystem::path Workbench::model_path(const std::string& name) const {
  return find_model(options_, name);
}

base::Result<std::unique_ptr<model::Decoder>> Workbench::load(const std::string& model,
                                                              const std::string& recipe,
                                                              kernels::Activations activations) {
  say(fmt::format("loading {} in {}", model, model::products_text(recipe, activations)));
  BH_ASSIGN(const model::WeightRecipe formats, model::parse_recipe(recipe));
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(model_path(model)));
  return model::load_decoder(
      checkpoint, {formats, activations}, bench::timed_set(kernels_), threads_,
      {.rows_max = kRowsMax, .logits_rows_max = kSequencesMax, .slices_max = kSequencesMax}, {});
}

namespace {

struct Part {
  const char* name;
  base::Status (*add_rows)(Workbench& bench, Table& table);
};
constexpr std::array kParts = {
    Part{kReproduceParts[0], size_rows},      Part{kReproduceParts[1], cache_rows},
    Part{kReproduceParts[2], weight_rows},    Part{kReproduceParts[3], deployment_rows},
    Part{kReproduceParts[4], integrity_rows},
};

std::string head_text(Workbench& bench) {
  const ReproduceModels models = models_of(bench.options());
  std::string text = fmt::format(
      "## Published gains, paired in one run\n\n{}, {} threads, {} path: {}. {:.0f} GFLOP/s, "
      "{:.1f} GB/s of reads.\nCaches: {} and {}; weights: {}; integrity: {} and {}. Ratios are "
      "medians of {} rounds in turn [10th..90th percentile].\n\n",
      bench.cpu().model_name, bench.threads().threads(), device::to_string(bench.isa()),
      bench.bounds().machine, bench.peaks().operations / 1e9, bench.peaks().bytes / 1e9,
      models.latent, models.grouped, models.weights, models.latent, models.small, bench.rounds());
  if (bench.options().quick) {
    text += "A quick run: no speed is judged.\n\n";
  } else if (!bench.context_bound(0.0)) {
    text += fmt::format("Bounds are of a context of {} tokens: no speed at {} is judged.\n\n",
                        ReproduceOptions{}.context, bench.context());
  }
  return text;
}

RunFacts facts_of(Workbench& bench) {
  return {.machine = bench.cpu().model_name,
          .isa = std::string(device::to_string(bench.isa())),
          .kind = bench.bounds().machine,
          .threads = bench.threads().threads(),
          .rounds = bench.rounds(),
          .context = bench.context(),
          .operations = bench.peaks().operations,
          .bytes = bench.peaks().bytes};
}

base::Error cannot_write(const std::string& path) {
  return {base::ErrorCode::kIo, "--json: " + path + " cannot be written", "--json"};
}

}  // namespace

base::Result<bool> reproduce(const ReproduceOptions& options, std::ostream& out,
                             std::ostream& log) {
  // Opened first: after half an hour is no time to find that there is no such folder.
  std::ofstream json;
  if (!options.json.empty()) {
    json.open(options.json);
    if (!json) return cannot_write(options.json);
  }
  BH_ASSIGN(const std::unique_ptr<Workbench> bench, Workbench::make(options, log));
  bench->say(estimate_text(bench->options(), bench->peaks().operations));
  out << head_text(*bench);
  Table table(out);
  table.print_head();
  for (const Part& part : kParts) {
    if (takes_part(options, part.name)) BH_TRY(part.add_rows(*bench, table));
  }
  if (!options.history.empty()) {
    BH_TRY(append_history(options.history,
                          table_history(table, facts_of(*bench), options.quick, options.commit)));
  }
  if (options.json.empty()) return table.all_hold();
  json << table_json(facts_of(*bench), table) << std::endl;
  if (!json) return cannot_write(options.json);
  return table.all_hold();
}

}  // namespace bulkhead::apps::reproduce
