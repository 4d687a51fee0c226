#include "apps/bench/reproduce/workbench.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/units.h"
#include "model/loader.h"

namespace bulkhead::apps {
namespace {

// One forward takes a chunk of a prompt or a row of so many requests.
constexpr int32_t kRowsMax = 512;
constexpr int32_t kSequencesMax = 64;

base::Status check_models(const ReproduceOptions& options) {
  const ReproduceModels models = models_of(options);
  std::string missing;
  for (const std::string& name : std::set{models.latent, models.grouped, models.weights}) {
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::path(options.models) / name, ignored)) continue;
    missing += fmt::format("\n  .venv/bin/python tools/checkpoints/make_random_checkpoint.py {} {}",
                           name, (std::filesystem::path(options.models) / name).string());
  }
  if (missing.empty()) return {};
  return base::invalid_argument("--models", "these models are not there yet; make them with" +
                                                missing + "\nor name their folder with --models");
}

}  // namespace

ReproduceModels models_of(const ReproduceOptions& options) {
  if (options.quick) return {"nano", "nano-L", "nano"};
  return {"mini-K", "mini-L", "mini-G"};
}

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
  return std::filesystem::path(options_.models) / name;
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

base::Result<bool> reproduce(const ReproduceOptions& options, std::ostream& out,
                             std::ostream& log) {
  BH_ASSIGN(const std::unique_ptr<Workbench> bench, Workbench::make(options, log));
  const ReproduceModels models = models_of(options);
  out << fmt::format(
      "## Published gains, paired in one run\n\n{}, {} threads, {} path: {}. {:.0f} GFLOP/s, "
      "{:.1f} GB/s of reads.\nCaches: {} and {}; weights: {}. Ratios are medians of {} rounds in "
      "turn [10th..90th percentile].\n\n",
      bench->cpu().model_name, bench->threads().threads(), device::to_string(bench->isa()),
      bench->bounds().machine, bench->peaks().operations / 1e9, bench->peaks().bytes / 1e9,
      models.latent, models.grouped, models.weights, bench->rounds());
  if (bench->options().quick) {
    out << "A quick run: no speed is judged.\n\n";
  } else if (!bench->context_bound(0.0)) {
    out << fmt::format("Bounds are of a context of {} tokens: no speed at {} is judged.\n\n",
                       ReproduceOptions{}.context, bench->context());
  }
  Table table(out);
  table.print_head();
  for (const auto& part : {cache_rows, weight_rows, deployment_rows}) {
    BH_TRY(part(*bench, table));
  }
  return table.all_hold();
}

}  // namespace bulkhead::apps
