// What is said of deployments: who is admitted with a cache of so many bytes, and two precisions at
// work in one process. In process, through the port that the API uses.
#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/reproduce/crowd.h"
#include "apps/bench/reproduce/workbench.h"
#include "base/clock.h"
#include "bench/steps.h"
#include "serve/plan.h"
#include "serve/runtime.h"
#include "telemetry/metrics.h"

namespace bulkhead::apps::reproduce {
namespace {

using kv::PageFormat;

constexpr int32_t kPageTokens = 64;
constexpr int32_t kRequests = 32;  // that a BF16 cache of the run's size holds

// Of the hybrid: few enough for one chunk of prefill.
constexpr size_t kCrowd = 4;
constexpr int32_t kPrompt = 96;
constexpr int32_t kAnswer = 32;

// `count` requests with prompts of their own, all submitted at once; `draw` makes other prompts.
base::Result<std::vector<Told>> run_crowd(serve::Runtime& runtime, size_t count, int32_t prompt,
                                          int32_t answer, int32_t draw) {
  const auto crowd = std::make_shared<Crowd>(count);
  std::vector<wire::Submission> batch;
  batch.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    wire::GenerateRequest request;
    request.id = runtime.generator().next_id();
    request.prompt = bench::tokens_of(draw + static_cast<int32_t>(i), prompt,
                                      runtime.generator().limits().vocabulary_size);
    request.sampling.temperature = 0.0f;
    request.cache.insert = false;
    request.max_tokens = answer;
    batch.push_back({std::move(request), std::make_shared<Member>(crowd, i)});
  }
  BH_TRY(runtime.generator().submit_all(std::move(batch)));
  return crowd->wait();
}

// A runtime and what has to outlive it.
struct Deployment {
  base::SteadyClock clock;
  telemetry::Registry registry;
  std::unique_ptr<serve::Runtime> runtime;

  ~Deployment() {
    if (runtime) runtime->stop();
  }
};

struct Wish {
  std::string prefill;  // recipes
  std::string decode;
  PageFormat cache = PageFormat::kBf16;  // of decode
  uint64_t cache_bytes = 0;              // of decode
};

base::Result<std::unique_ptr<Deployment>> deploy(Workbench& bench, const std::string& model,
                                                 const Wish& wish) {
  bench.say(fmt::format("deploying {}: prefill {}, decode {} with a cache in {}", model,
                        wish.prefill, wish.decode, kv::to_string(wish.cache)));
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(bench.model_path(model)));
  serve::ModelOptions options;
  options.isa = device::to_string(bench.isa());
  options.threads = bench.threads().threads();
  options.page_tokens = kPageTokens;
  options.context_tokens = 2 * kPageTokens;
  options.running_max = 4 * kRequests;
  options.prefix_cache = false;
  options.placement = serve::Placement::kSplit;
  BH_ASSIGN(options.prefill.weights, model::parse_recipe(wish.prefill));
  BH_ASSIGN(options.decode.weights, model::parse_recipe(wish.decode));
  options.prefill.cache_format = PageFormat::kBf16;
  options.decode.cache_format = wish.cache;
  options.prefill.kv_cache_bytes = 2 * wish.cache_bytes;
  options.decode.kv_cache_bytes = wish.cache_bytes;
  BH_ASSIGN(const serve::Plan plan, serve::make_plan(options, checkpoint, bench.cpu()));
  auto out = std::make_unique<Deployment>();
  BH_ASSIGN(out->runtime, serve::Runtime::start(plan, bench.kernels(), checkpoint, out->clock,
                                                out->registry, nullptr, {}));
  return out;
}

// Half a request more than 32 in BF16, two pages each: 32 in BF16 and 64 in FP8, which keeps an
// exponent beside its values.
base::Result<uint64_t> cache_bytes(Workbench& bench, const std::string& model) {
  BH_ASSIGN(const model::Checkpoint checkpoint, model::Checkpoint::open(bench.model_path(model)));
  const kv::PageLayout layout =
      model::cache_layout(checkpoint.config(), kPageTokens, PageFormat::kBf16);
  return (2 * kRequests + 1) * layout.page_bytes();
}

// Requests that fill two pages each, one more than there is room for.
base::Result<Row> admission_row(Workbench& bench, const std::string& model, PageFormat cache,
                                size_t room) {
  BH_ASSIGN(const uint64_t bytes, cache_bytes(bench, model));
  BH_ASSIGN(const std::unique_ptr<Deployment> deployment,
            deploy(bench, model,
                   {.prefill = "fp8", .decode = "fp8", .cache = cache, .cache_bytes = bytes}));
  constexpr int32_t kLong = 40;  // the first decodes until the last is in
  BH_ASSIGN(std::vector<Told> told,
            run_crowd(*deployment->runtime, room + 1, 2 * kPageTokens - kLong, kLong, 0));
  const Admission admission = admission_of(told);
  const bool holds = admission.failed == 0 && admission.together == room && admission.last_waited;
  return fact_row(
      cache == PageFormat::kBf16 ? "BF16 cannot admit the 33rd request" : "FP8 reaches 64 requests",
      fmt::format("{}, {} cache in {} bytes, {} requests at once", model, kv::to_string(cache),
                  bytes, room + 1),
      holds,
      fmt::format("{} ran together, the last one {}, {} failed", admission.together,
                  admission.last_waited ? "waited and completed later" : "did not wait",
                  admission.failed),
      fmt::format("{} together, {} waits, none fails", room, room + 1));
}

base::Result<Phases> run_phases(Deployment& deployment, int32_t draw) {
  BH_ASSIGN(const std::vector<Told> told,
            run_crowd(*deployment.runtime, kCrowd, kPrompt, kAnswer, draw));
  for (const Told& one : told) {
    if (one.end.error) return *one.end.error;
  }
  return phases_of(told, kPrompt, kAnswer);
}

base::Status hybrid_rows(Workbench& bench, const std::string& model, Table& table) {
  BH_ASSIGN(const uint64_t bytes, cache_bytes(bench, model));
  const auto wish = [&](const char* prefill, const char* decode) {
    return Wish{.prefill = prefill, .decode = decode, .cache_bytes = bytes};
  };
  // Alone is a deployment of one precision; three are in memory at once, in turn.
  BH_ASSIGN(const std::unique_ptr<Deployment> fp8, deploy(bench, model, wish("fp8", "fp8")));
  BH_ASSIGN(const std::unique_ptr<Deployment> int4, deploy(bench, model, wish("int4", "int4")));
  BH_ASSIGN(const std::unique_ptr<Deployment> both, deploy(bench, model, wish("fp8", "int4")));
  std::vector<double> prefill_ratios;
  std::vector<double> decode_ratios;
  const int rounds = std::min(bench.rounds(), 5);
  for (int round = 0; round < rounds; ++round) {
    const int32_t draw = 1000 * (round + 1);
    BH_ASSIGN(const Phases mixed, run_phases(*both, draw));
    BH_ASSIGN(const Phases slow, run_phases(*fp8, draw));
    BH_ASSIGN(const Phases fast, run_phases(*int4, draw));
    prefill_ratios.push_back(mixed.prefill / slow.prefill);
    decode_ratios.push_back(mixed.decode / fast.decode);
  }
  const std::optional<double> bound = bench.speed_bound(bench.bounds().hybrid);
  table.add(ratio_row("hybrid: prefill of FP8 ...",
                      fmt::format("{}, {} prompts of {} tokens, prefill fp8 + decode int4 over "
                                  "fp8 alone",
                                  model, kCrowd, kPrompt),
                      kernels::spread_of(prefill_ratios), bound));
  table.add(ratio_row("... with decode of INT4, in one deployment",
                      fmt::format("{}, {} requests, decode, prefill fp8 + decode int4 over int4 "
                                  "alone",
                                  model, kCrowd),
                      kernels::spread_of(decode_ratios), bound));
  return {};
}

}  // namespace

base::Status deployment_rows(Workbench& bench, Table& table) {
  const ReproduceModels models = models_of(bench.options());
  BH_ASSIGN(const Row bf16, admission_row(bench, models.latent, PageFormat::kBf16, kRequests));
  table.add(bf16);
  BH_ASSIGN(const Row fp8,
            admission_row(bench, models.latent, PageFormat::kFp8E4m3, 2 * kRequests));
  table.add(fp8);
  return hybrid_rows(bench, models.weights, table);
}

}  // namespace bulkhead::apps::reproduce
