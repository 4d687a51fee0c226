// What is said of weights: INT4 against FP8 in decode and prefill, FP8 against BF16 in prefill.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "apps/bench/reproduce/workbench.h"
#include "bench/steps.h"

namespace bulkhead::apps::reproduce {
namespace {

constexpr std::array<int32_t, 7> kConcurrency = {1, 2, 4, 8, 16, 32, 64};
// What is published, of some of them.
constexpr std::array<int32_t, 3> kJudged = {1, 8, 64};
constexpr std::array<const char*, 3> kPublished = {"+55 %", "+21 %", "+16 %"};
constexpr int32_t kChunk = 512;  // tokens of a prompt in one forward
// The head too: presets leave it in BF16, and of the bytes that a token of this small shape reads
// with INT4 it would be a sixth, where it is a twelfth in GLM-5.2.
constexpr const char* kFp8 = "fp8,head=fp8";
constexpr const char* kInt4 = "int4,head=int4";

struct PromptRatios {
  kernels::Spread whole;
  kernels::Spread products;  // of the time that goes into products with weights
};

// The same steps on two decoders.
struct Raced {
  kernels::Spread ratio;  // time of the first over time of the second
  kernels::Spread one;    // tokens per second
  kernels::Spread other;
};

kernels::Spread rate_of(int32_t sequences, const std::vector<double>& seconds) {
  std::vector<double> rates;
  rates.reserve(seconds.size());
  for (const double one : seconds) rates.push_back(sequences / one);
  return kernels::spread_of(rates);
}

double product_seconds(bench::Step& step) {
  bench::reset_op_totals();
  step.run();
  return bench::op_totals()[bench::kGemm].seconds + bench::op_totals()[bench::kGroup].seconds;
}

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

  Raced decode(int32_t sequences) {
    bench::Step one = bench::Step::decode(one_, a_, sequences);
    bench::Step other = bench::Step::decode(other_, b_, sequences);
    const auto times =
        bench::time_in_turn(bench_.rounds(), {[&] { one.run(); }, [&] { other.run(); }});
    return {ratio_of(times[0], times[1]), rate_of(sequences, times[0]),
            rate_of(sequences, times[1])};
  }
  PromptRatios prompt(int32_t tokens) {
    bench::Step one = bench::Step::prompt(one_, a_, tokens, 0);
    bench::Step other = bench::Step::prompt(other_, b_, tokens, 0);
    std::vector<double> one_products;
    std::vector<double> other_products;
    const auto times = bench::time_in_turn(
        bench_.rounds(), {[&] { one_products.push_back(product_seconds(one)); },
                          [&] { other_products.push_back(product_seconds(other)); }});
    return {ratio_of(times[0], times[1]), ratio_of(one_products, other_products)};
  }

 private:
  WeightRace(Workbench& bench, model::Decoder& one, model::Decoder& other, bench::FilledCache a,
             bench::FilledCache b)
      : bench_(bench), one_(one), other_(other), a_(std::move(a)), b_(std::move(b)) {}

  Workbench& bench_;
  model::Decoder& one_;
  model::Decoder& other_;
  bench::FilledCache a_;
  bench::FilledCache b_;
};

// At one context; curves of all concurrencies where they are asked for.
base::Status decode_rows(Workbench& bench, model::Decoder& fp8, model::Decoder& int4,
                         int32_t context, const DecodeBounds& bounds, bool curves, Table& table) {
  const std::string model = models_of(bench.options()).weights;
  const std::string other = int4.facts().weight_format;
  BH_ASSIGN(WeightRace race, WeightRace::make(bench, fp8, int4, context, kConcurrency.back()));
  const std::string chart = fmt::format("{} at {} tokens, {} and {}", model, context, other, kFp8);
  std::array<Curve, 2> drawn = {Curve{"weights", chart, kFp8, {}},
                                Curve{"weights", chart, other, {}}};
  for (const int32_t sequences : kConcurrency) {
    const auto judged = std::find(kJudged.begin(), kJudged.end(), sequences);
    if (judged == kJudged.end() && !curves) continue;
    const Raced raced = race.decode(sequences);
    drawn[0].points.push_back({sequences, raced.one});
    drawn[1].points.push_back({sequences, raced.other});
    if (judged == kJudged.end()) continue;
    const auto i = static_cast<size_t>(judged - kJudged.begin());
    table.add(ratio_row(fmt::format("INT4 decode {} over FP8 at {}", kPublished[i], sequences),
                        fmt::format("{} at {} tokens, decode of {}, {} / {} weights", model,
                                    context, sequences, other, kFp8),
                        raced.ratio, bench.speed_bound(bounds[i])));
  }
  if (!curves) return {};
  for (Curve& curve : drawn) table.add(std::move(curve));
  return {};
}

// At the context that is judged, and at that of the run.
base::Status decode_rows(Workbench& bench, model::Decoder& fp8, model::Decoder& int4,
                         const DecodeBounds& bounds, Table& table) {
  const int32_t judged = bench.bounds().weights_context;
  BH_TRY(decode_rows(bench, fp8, int4, judged, bounds, true, table));
  if (judged == bench.context()) return {};
  return decode_rows(bench, fp8, int4, bench.context(), {}, false, table);
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

base::Status prefill_row(Workbench& bench, model::Decoder& fp8, model::Decoder& int4, int32_t chunk,
                         Table& table) {
  const std::string model = models_of(bench.options()).weights;
  BH_ASSIGN(WeightRace race, WeightRace::make(bench, fp8, int4, chunk, 1));
  const kernels::Spread ratio = race.prompt(chunk).whole;
  bench::reset_op_totals();
  BH_ASSIGN(const bench::FilledCache cache,
            bench::FilledCache::create(int4, int4.facts().cache, 1, chunk));
  table.add(ratio_row("INT4 prefill 0.85x of FP8: why prefill keeps FP8",
                      fmt::format("{}, chunk of {} tokens, INT4 / FP8 weights", model, chunk),
                      ratio, std::nullopt, tie_text(int4, ratio, chunk)));
  return {};
}

// INT4 with activations in bytes, against FP8 as before.
base::Status int8_rows(Workbench& bench, model::Decoder& fp8, int32_t chunk, Table& table) {
  const std::string model = models_of(bench.options()).weights;
  BH_ASSIGN(const std::unique_ptr<model::Decoder> int8,
            bench.load(model, kInt4, kernels::Activations::kInt8));
  BH_TRY(decode_rows(bench, fp8, *int8, bench.bounds().int8_decode, table));
  BH_ASSIGN(WeightRace race, WeightRace::make(bench, fp8, *int8, chunk, 1));
  const PromptRatios ratios = race.prompt(chunk);
  table.add(ratio_row(
      "int8 activations: about twice the prefill",
      fmt::format("{}, chunk of {} tokens, {} / {} weights", model, chunk,
                  int8->facts().weight_format, kFp8),
      ratios.whole, std::nullopt,
      fmt::format(
          "products with weights alone {:.2f}x; attention, norms and cache stay as they are",
          ratios.products.median)));
  return {};
}

}  // namespace

base::Status weight_rows(Workbench& bench, Table& table) {
  const std::string model = models_of(bench.options()).weights;
  const int32_t chunk = std::min(kChunk, bench.context());
  BH_ASSIGN(const std::unique_ptr<model::Decoder> fp8, bench.load(model, kFp8));
  {
    BH_ASSIGN(const std::unique_ptr<model::Decoder> int4, bench.load(model, kInt4));
    BH_TRY(decode_rows(bench, *fp8, *int4, bench.bounds().int4_decode, table));
    BH_TRY(prefill_row(bench, *fp8, *int4, chunk, table));
  }
  BH_TRY(int8_rows(bench, *fp8, chunk, table));
  BH_ASSIGN(const std::unique_ptr<model::Decoder> bf16, bench.load(model, "bf16"));
  BH_ASSIGN(WeightRace race, WeightRace::make(bench, *bf16, *fp8, chunk, 1));
  table.add(
      ratio_row("FP8 prefill as fast as BF16",
                fmt::format("{}, chunk of {} tokens, FP8 / BF16 weights", model, chunk),
                race.prompt(chunk).whole,
                chunk == kChunk ? bench.speed_bound(bench.bounds().fp8_prefill) : std::nullopt));
  return {};
}

}  // namespace bulkhead::apps::reproduce
