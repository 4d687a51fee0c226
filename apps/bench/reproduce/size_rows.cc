// What is said of sizes and of money, by arithmetic alone: two public models as their operators run
// them, planned by `bulkhead plan`'s own code from their configurations.
#include <fmt/format.h>

#include <cmath>

#include "apps/bench/reproduce/workbench.h"
#include "serve/capacity/capacity_plan.h"

namespace bulkhead::apps::reproduce {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kTolerance = 0.01;

// 8 ranks of 141 GiB. The share of memory that weights and cache took is not published; with this
// one both models come out (docs/planning.md).
serve::CapacityOptions eight_ranks() {
  serve::CapacityOptions options;
  options.memory_bytes = uint64_t{141} << 30;
  options.memory_share = 0.824;
  options.ranks = 8;
  options.context_tokens = 21'400;
  return options;
}

base::Result<serve::PlannedModel> configuration(const std::string& name) {
  return serve::load_planned_model(std::string(BULKHEAD_SOURCE_DIR "/tests/golden/configs/") +
                                   name + ".json");
}

bool is_near(double figure, double published) {
  return std::abs(figure / published - 1.0) <= kTolerance;
}

double gib(uint64_t bytes) { return static_cast<double>(bytes) / kGiB; }

// Two published figures, and a change from one to the other.
Row change_row(std::string published, std::string planned, std::pair<double, double> said,
               std::pair<double, double> ours, std::string_view unit) {
  return fact_row(std::move(published), std::move(planned),
                  is_near(ours.first, said.first) && is_near(ours.second, said.second),
                  fmt::format("{:.5g} -> {:.5g} {}", ours.first, ours.second, unit),
                  "both within 1 %");
}

base::Status kimi_rows(Table& table) {
  serve::CapacityOptions options = eight_ranks();
  options.prefill.weights = options.decode.weights = "kimi";
  options.decode.kv = "fp8_e4m3";
  // The published peaks: FP8 cache at 64 requests, BF16 at 32.
  options.decode.tokens_per_second = 2192;
  options.against.tokens_per_second = 2192 / 1.41;
  options.price = 1.0;
  BH_ASSIGN(serve::PlannedModel model, configuration("kimi-k2.6"));
  BH_ASSIGN(const serve::CapacityPlan plan, serve::plan_capacity(std::move(model), options));
  const serve::PoolCapacity& fp8 = plan.decode;
  const serve::PoolCapacity& bf16 = plan.against.value();
  table.add(change_row(
      "686 k -> 1.37 M resident tokens", "Kimi K2.6 on 8 x 141 GiB, planned", {686, 1370},
      {static_cast<double>(bf16.room.tokens) / 1e3, static_cast<double>(fp8.room.tokens) / 1e3},
      "k tokens"));
  table.add(fact_row("32 -> 64 requests",
                     fmt::format("Kimi K2.6, of {} tokens each, planned", options.context_tokens),
                     bf16.requests == 32 && std::abs(fp8.requests - 64) <= 1,
                     fmt::format("{} -> {}", bf16.requests, fp8.requests), "32 -> 64, or one off"));
  const double saved = 1.0 - fp8.cost / bf16.cost;
  table.add(fact_row("a token about 30 % cheaper",
                     "Kimi K2.6, planned, from the published throughputs",
                     std::abs(saved - 0.30) <= kTolerance,
                     fmt::format("{:.1f} % less", 100 * saved), "29 to 31 % less"));
  return {};
}

base::Status glm_rows(Table& table) {
  serve::CapacityOptions options = eight_ranks();
  options.prefill.weights = "fp8";
  options.decode.weights = "kimi";
  options.decode.kv = "fp8_e4m3";
  BH_ASSIGN(serve::PlannedModel model, configuration("glm-5.2"));
  // The published count keeps the indexer's keys of every layer; we keep those that choose.
  for (uint8_t& full : model.config.indexer.full_layers) full = 1;
  BH_ASSIGN(const serve::CapacityPlan plan, serve::plan_capacity(std::move(model), options));
  const std::string recipes = "GLM-5.2, FP8 -> INT4 experts, planned";
  table.add(change_row(
      "checkpoint 705 -> 421 GB", recipes, {705, 421},
      {gib(plan.prefill.weights.checkpoint_bytes), gib(plan.decode.weights.checkpoint_bytes)},
      "GiB"));
  table.add(change_row("88 -> 52.6 GB a device", recipes + ", on each of 8", {88, 52.6},
                       {gib(plan.prefill.checkpoint_on_rank), gib(plan.decode.checkpoint_on_rank)},
                       "GiB"));
  const double tokens = static_cast<double>(plan.decode.room.tokens) / 1e6;
  table.add(fact_row("1.18 M resident tokens",
                     "GLM-5.2 in INT4 with FP8 cache, planned with every layer's index keys",
                     is_near(tokens, 1.18), fmt::format("{:.3f} M tokens", tokens), "within 1 %"));
  return {};
}

}  // namespace

base::Status size_rows(Workbench&, Table& table) {
  BH_TRY(kimi_rows(table));
  return glm_rows(table);
}

}  // namespace bulkhead::apps::reproduce
