// What is said of caches: tokens in equal bytes, and the speed of decoding with them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/bench/reproduce/workbench.h"
#include "bench/steps.h"
#include "serve/capacity/capacity.h"

namespace bulkhead::apps::reproduce {
namespace {

using kv::PageFormat;

// Requests that a BF16 cache of the run's size holds; in FP8 it holds twice as many.
constexpr int32_t kRequests = 32;
constexpr std::array<int32_t, 4> kEqual = {1, 8, 16, 32};
constexpr std::array<int32_t, 7> kConcurrency = {1, 2, 4, 8, 16, 32, 64};

kv::PageLayout layout_of(const model::Decoder& decoder, PageFormat format) {
  kv::PageLayout layout = decoder.facts().cache;
  layout.format = format;
  return layout;
}

Row tokens_row(const model::Decoder& decoder, const std::string& model, double bound) {
  const kv::PageLayout bf16 = layout_of(decoder, PageFormat::kBf16);
  const kv::PageLayout fp8 = layout_of(decoder, PageFormat::kFp8E4m3);
  // The bytes of exactly 32 requests of 1,088 tokens.
  const uint64_t bytes = static_cast<uint64_t>(kRequests) *
                         static_cast<uint64_t>(serve::pages_of(bf16, 1088)) * bf16.page_bytes();
  const int64_t before = serve::cache_room(bf16, bytes).tokens;
  const int64_t after = serve::cache_room(fp8, bytes).tokens;
  const double ratio = static_cast<double>(after) / static_cast<double>(before);
  return fact_row("2.0x resident tokens", fmt::format("{}, whole pages in {} bytes", model, bytes),
                  ratio >= bound, fmt::format("{:.3f}x: {} -> {} tokens", ratio, before, after),
                  fmt::format(">= {:.2f}x", bound));
}

// Seconds of every step in every round, all of them in turn.
struct Steps {
  std::vector<int32_t> sequences;
  std::vector<std::vector<double>> seconds;  // [step][round]
};

std::vector<double> rates_of(int32_t sequences, const std::vector<double>& seconds) {
  std::vector<double> rates;
  rates.reserve(seconds.size());
  for (const double one : seconds) rates.push_back(sequences / one);
  return rates;
}

// Tokens per second of the fastest step, round by round.
std::vector<double> best_rates(const Steps& steps) {
  std::vector<double> best_rate;
  double best_median = 0.0;
  for (size_t i = 0; i < steps.seconds.size(); ++i) {
    std::vector<double> rates = rates_of(steps.sequences[i], steps.seconds[i]);
    std::vector<double> sorted = rates;
    const double median = kernels::spread_of(sorted).median;
    if (median > best_median) {
      best_median = median;
      best_rate = std::move(rates);
    }
  }
  return best_rate;
}

Curve curve_of(const std::string& model, int32_t context, const char* name, const Steps& steps) {
  Curve curve = {"caches", fmt::format("{} at {} tokens, decode", model, context), name, {}};
  curve.points.reserve(steps.seconds.size());
  for (size_t i = 0; i < steps.seconds.size(); ++i) {
    std::vector<double> rates = rates_of(steps.sequences[i], steps.seconds[i]);
    curve.points.push_back({steps.sequences[i], kernels::spread_of(rates)});
  }
  return curve;
}

// What this machine's peaks allow, from the operations and bytes of one run of a step.
std::string limit_text(bench::Step& step, const bench::Peaks& peaks) {
  bench::reset_op_totals();
  step.run();
  double operations = 0.0;
  double bytes = 0.0;
  for (const bench::OpTotal& op : bench::op_totals()) {
    operations += op.operations;
    bytes += op.bytes;
  }
  return fmt::format("{:.0f} tok/s by arithmetic, {:.0f} by memory",
                     step.tokens() * peaks.operations / operations,
                     step.tokens() * peaks.bytes / bytes);
}

// One shape's decode steps in both formats.
class CacheRace {
 public:
  static base::Result<CacheRace> make(Workbench& bench, model::Decoder& decoder,
                                      const std::string& model) {
    bench.say(fmt::format("filling caches of {}", model));
    BH_ASSIGN(bench::FilledCache bf16,
              bench::FilledCache::create(decoder, layout_of(decoder, PageFormat::kBf16), kRequests,
                                         bench.context()));
    BH_ASSIGN(bench::FilledCache fp8,
              bench::FilledCache::create(decoder, layout_of(decoder, PageFormat::kFp8E4m3),
                                         2 * kRequests, bench.context()));
    return CacheRace(bench, decoder, model, std::move(bf16), std::move(fp8));
  }

  Row equal_row(int32_t sequences) {
    bench::Step bf16 = bench::Step::decode(decoder_, bf16_, sequences);
    bench::Step fp8 = bench::Step::decode(decoder_, fp8_, sequences);
    const auto times =
        bench::time_in_turn(bench_.rounds(), {[&] { bf16.run(); }, [&] { fp8.run(); }});
    return ratio_row("FP8 cache a few percent slower at equal concurrency",
                     fmt::format("{}, {} requests at {} tokens, decode, FP8 / BF16 cache", model_,
                                 sequences, bench_.context()),
                     ratio_of(times[0], times[1]),
                     bench_.context_bound(bench_.bounds().equal_concurrency));
  }

  // The best that each format reaches with the requests its cache holds, and the way there.
  void add_peaks(std::optional<double> bound, Table& table) {
    std::vector<bench::Step> steps;
    steps.reserve(2 * kConcurrency.size());
    Steps bf16;
    Steps fp8;
    for (const int32_t n : kConcurrency) {
      if (n > kRequests) continue;
      steps.push_back(bench::Step::decode(decoder_, bf16_, n));
      bf16.sequences.push_back(n);
    }
    for (const int32_t n : kConcurrency) {
      steps.push_back(bench::Step::decode(decoder_, fp8_, n));
      fp8.sequences.push_back(n);
    }
    std::vector<std::function<void()>> work;
    work.reserve(steps.size());
    for (bench::Step& step : steps) work.emplace_back([&step] { step.run(); });
    const auto times = bench::time_in_turn(bench_.rounds(), work);
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(bf16.sequences.size());
    bf16.seconds.assign(times.begin(), middle);
    fp8.seconds.assign(middle, times.end());
    const std::string limits =
        fmt::format("limits of this machine: BF16 {}; FP8 {}",
                    limit_text(steps[bf16.sequences.size() - 1], bench_.peaks()),
                    limit_text(steps.back(), bench_.peaks()));
    table.add(curve_of(model_, bench_.context(), "BF16 cache", bf16));
    table.add(curve_of(model_, bench_.context(), "FP8 cache", fp8));
    add_peak_rows(ratio_of(best_rates(fp8), best_rates(bf16)), bench_.context_bound(bound), limits,
                  table);
  }

 private:
  CacheRace(Workbench& bench, model::Decoder& decoder, std::string model, bench::FilledCache bf16,
            bench::FilledCache fp8)
      : bench_(bench),
        decoder_(decoder),
        model_(std::move(model)),
        bf16_(std::move(bf16)),
        fp8_(std::move(fp8)) {}

  void add_peak_rows(const kernels::Spread& ratio, std::optional<double> bound,
                     const std::string& limits, Table& table) {
    const std::string measured = fmt::format(
        "{} at {} tokens, best of 1 to {} requests with FP8 over best of 1 to {} with "
        "BF16",
        model_, bench_.context(), 2 * kRequests, kRequests);
    table.add(ratio_row("FP8 peak 41 % above BF16's", measured, ratio, bound, limits));
    table.add(saving_row("a token about 30 % cheaper",
                         fmt::format("{}, the same hours over the tokens of both peaks", model_),
                         ratio, bound));
  }

  Workbench& bench_;
  model::Decoder& decoder_;
  std::string model_;
  bench::FilledCache bf16_;
  bench::FilledCache fp8_;
};

}  // namespace

base::Status cache_rows(Workbench& bench, Table& table) {
  const ReproduceModels models = models_of(bench.options());
  {
    BH_ASSIGN(const std::unique_ptr<model::Decoder> latent, bench.load(models.latent, "fp8"));
    table.add(tokens_row(*latent, models.latent, bench.bounds().resident_tokens));
    BH_ASSIGN(CacheRace race, CacheRace::make(bench, *latent, models.latent));
    for (const int32_t sequences : kEqual) table.add(race.equal_row(sequences));
    race.add_peaks(bench.bounds().latent_peak, table);
  }
  BH_ASSIGN(const std::unique_ptr<model::Decoder> grouped, bench.load(models.grouped, "fp8"));
  table.add(tokens_row(*grouped, models.grouped, bench.bounds().resident_tokens));
  BH_ASSIGN(CacheRace race, CacheRace::make(bench, *grouped, models.grouped));
  race.add_peaks(bench.bounds().grouped_peak, table);
  return {};
}

}  // namespace bulkhead::apps::reproduce
