// What is said of weights: INT4 against FP8 in decode and prefill, FP8 against BF16 in prefill.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "apps/bench/reproduce/workbench.h"
#include "bench/steps.h"

namespace bulkhead::apps {
namespace {

constexpr std::array<int32_t, 3> kConcurrency = {1, 8, 64};
constexpr std::array<const char*, 3> kPublished = {"+55 %", "+21 %", "+16 %"};
constexpr int32_t kChunk = 512;  // tokens of a prompt in one forward

// The same steps on two decoders, each with a cache of its own.
class WeightRace {
 public:
  static base::Result<WeightRace> make(Workbench& bench, model::Decoder& one, model::Decoder& other,
                                       int32_t context, int32_t sequences) {
    BH_ASSIGN(bench::FilledCache a,
              bench::FilledCache::create(one, one.facts().cache, sequences, context));
    BH_ASSIGN(bench::FilledCache b,
              bench::FilledCache::create(other, other.facts().cache, sequences, context));
    return WeightRace(bench, one, other, std::move(a), std::move(b));
  }

  // Time of the first over time of the second.
  kernels::Spread decode(int32_t sequences) {
    return race(bench::Step::decode(one_, a_, sequences),
                bench::Step::decode(other_, b_, sequences));
  }
  kernels::Spread prompt(int32_t tokens) {
    return race(bench::Step::prompt(one_, a_, tokens, 0),
                bench::Step::prompt(other_, b_, tokens, 0));
  }

 private:
  WeightRace(Workbench& bench, model::Decoder& one, model::Decoder& other, bench::FilledCache a,
             bench::FilledCache b)
      : bench_(bench), one_(one), other_(other), a_(std::move(a)), b_(std::move(b)) {}

  kernels::Spread race(bench::Step one, bench::Step other) {
    const auto times =
        bench::time_in_turn(bench_.rounds(), {[&] { one.run(); }, [&] { other.run(); }});
    return ratio_of(times[0], times[1]);
  }

  Workbench& bench_;
  model::Decoder& one_;
  model::Decoder& other_;
  bench::FilledCache a_;
  bench::FilledCache b_;
};

base::Status int4_decode(Workbench& bench, model::Decoder& fp8, model::Decoder& int4,
                         int32_t context, bool judged, std::vector<Row>& rows) {
  const std::string model = models_of(bench.options()).weights;
  BH_ASSIGN(WeightRace race, WeightRace::make(bench, fp8, int4, context, kConcurrency.back()));
  for (size_t i = 0; i < kConcurrency.size(); ++i) {
    const std::optional<double> bound =
        judged ? bench.speed_bound(bench.bounds().int4_decode[i]) : std::nullopt;
    rows.push_back(
        ratio_row(fmt::format("INT4 decode {} over FP8 at {}", kPublished[i], kConcurrency[i]),
                  fmt::format("{} at {} tokens, decode of {}, INT4 / FP8 weights", model, context,
                              kConcurrency[i]),
                  race.decode(kConcurrency[i]), bound));
  }
  return {};
}

// Operations of one chunk's products with weights, and the bytes of those.
std::string tie_text(model::Decoder& decoder, const kernels::Spread& ratio, int32_t chunk) {
  if (std::abs(ratio.median - 1.0) > 0.05) return {};
  double operations = 0.0;
  double bytes = 0.0;
  for (const bench::Op op : {bench::kGemm, bench::kGroup}) {
    operations += bench::op_totals()[op].operations;
    bytes += bench::op_totals()[op].bytes;
  }
  return fmt::format(
      "a tie: either format multiplies in the same arithmetic, {:.1f} GFLOP a chunk of {} tokens "
      "on {:.2f} GB of {} weights; a panel is unpacked for many rows at once, so what unpacking "
      "costs is not seen",
      operations / 1e9, chunk, bytes / 1e9, decoder.facts().weight_format);
}

base::Status prefill(Workbench& bench, model::Decoder& fp8, model::Decoder& int4, int32_t chunk,
                     std::vector<Row>& rows) {
  const std::string model = models_of(bench.options()).weights;
  BH_ASSIGN(WeightRace race, WeightRace::make(bench, fp8, int4, chunk, 1));
  const kernels::Spread ratio = race.prompt(chunk);
  bench::reset_op_totals();
  BH_ASSIGN(const bench::FilledCache cache,
            bench::FilledCache::create(int4, int4.facts().cache, 1, chunk));
  rows.push_back(ratio_row("INT4 prefill 0.85x of FP8: why prefill keeps FP8",
                           fmt::format("{}, chunk of {} tokens, INT4 / FP8 weights", model, chunk),
                           ratio, std::nullopt, tie_text(int4, ratio, chunk)));
  return {};
}

// A pool has no option for activations in bytes yet, so there is nothing to measure.
Row int8_row(const Workbench& bench) {
  Row row;
  row.published = "INT4 decode with int8 activations, over FP8 at 1 / 8 / 64";
  row.measured = fmt::format("{}, decode", models_of(bench.options()).weights);
  row.result = "not in this build";
  std::string bounds;
  for (const std::optional<double>& bound : bench.bounds().int8_decode) {
    if (bound) bounds += fmt::format("{}{:.1f}", bounds.empty() ? ">= " : " / ", *bound);
  }
  row.needed = bounds;
  return row;
}

}  // namespace

base::Result<std::vector<Row>> weight_rows(Workbench& bench) {
  const std::string model = models_of(bench.options()).weights;
  const int32_t chunk = std::min(kChunk, bench.context());
  std::vector<Row> rows;
  BH_ASSIGN(const std::unique_ptr<model::Decoder> fp8, bench.load(model, "fp8"));
  {
    BH_ASSIGN(const std::unique_ptr<model::Decoder> int4, bench.load(model, "int4"));
    const int32_t judged = bench.bounds().weights_context;
    BH_TRY(int4_decode(bench, *fp8, *int4, judged, true, rows));
    if (judged != bench.context()) {
      BH_TRY(int4_decode(bench, *fp8, *int4, bench.context(), false, rows));
    }
    rows.push_back(int8_row(bench));
    BH_TRY(prefill(bench, *fp8, *int4, chunk, rows));
  }
  BH_ASSIGN(const std::unique_ptr<model::Decoder> bf16, bench.load(model, "bf16"));
  BH_ASSIGN(WeightRace race, WeightRace::make(bench, *bf16, *fp8, chunk, 1));
  rows.push_back(ratio_row(
      "FP8 prefill as fast as BF16",
      fmt::format("{}, chunk of {} tokens, FP8 / BF16 weights", model, chunk), race.prompt(chunk),
      chunk == kChunk ? bench.speed_bound(bench.bounds().fp8_prefill) : std::nullopt));
  return rows;
}

}  // namespace bulkhead::apps
