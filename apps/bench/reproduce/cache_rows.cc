// What is said of caches: tokens in equal bytes, and the speed of decoding with them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/bench/reproduce/workbench.h"
#include "bench/steps.h"
#include "serve/capacity/capacity.h"

namespace bulkhead::apps {
namespace {

using kv::PageFormat;

// Requests that a BF16 cache of the run's size holds; in FP8 it holds twice as many.
constexpr int32_t kRequests = 32;
constexpr std::array<int32_t, 4> kEqual = {1, 8, 16, 32};

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

// Tokens per second of the fastest step, round by round.
std::vector<double> best_rates(const Steps& steps) {
  std::vector<double> best_rate;
  double best_median = 0.0;
  for (size_t i = 0; i < steps.seconds.size(); ++i) {
    std::vector<double> rates;
    rates.reserve(steps.seconds[i].size());
    for (const double seconds : steps.seconds[i]) rates.push_back(steps.sequences[i] / seconds);
    std::vector<double> sorted = rates;
    const double median = kernels::spread_of(sorted).median;
    if (median > best_median) {
      best_median = median;
      best_rate = std::move(rates);
    }
  }
  return best_rate;
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

  // The best that each format reaches with the requests its cache holds.
  Row peak_row(std::optional<double> bound) {
    std::vector<bench::Step> steps;
    steps.reserve(4);
    for (const int32_t n : {kRequests / 2, kRequests}) {
      steps.push_back(bench::Step::decode(decoder_, bf16_, n));
    }
    for (const int32_t n : {kRequests, 2 * kRequests}) {
      steps.push_back(bench::Step::decode(decoder_, fp8_, n));
    }
    std::vector<std::function<void()>> work;
    for (bench::Step& step : steps) work.emplace_back([&step] { step.run(); });
    auto times = bench::time_in_turn(bench_.rounds(), work);
    const Steps bf16 = {{kRequests / 2, kRequests}, {times[0], times[1]}};
    const Steps fp8 = {{kRequests, 2 * kRequests}, {times[2], times[3]}};
    const std::string limits =
        fmt::format("limits of this machine: BF16 {}; FP8 {}", limit_text(steps[1], bench_.peaks()),
                    limit_text(steps[3], bench_.peaks()));
    return ratio_row(
        "FP8 peak 41 % above BF16's",
        fmt::format("{} at {} tokens, best of {} and {} requests with FP8 over best "
                    "of {} and {} with BF16",
                    model_, bench_.context(), kRequests, 2 * kRequests, kRequests / 2, kRequests),
        ratio_of(best_rates(fp8), best_rates(bf16)), bench_.context_bound(bound), limits);
  }

 private:
  CacheRace(Workbench& bench, model::Decoder& decoder, std::string model, bench::FilledCache bf16,
            bench::FilledCache fp8)
      : bench_(bench),
        decoder_(decoder),
        model_(std::move(model)),
        bf16_(std::move(bf16)),
        fp8_(std::move(fp8)) {}

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
    table.add(race.peak_row(bench.bounds().latent_peak));
  }
  BH_ASSIGN(const std::unique_ptr<model::Decoder> grouped, bench.load(models.grouped, "fp8"));
  table.add(tokens_row(*grouped, models.grouped, bench.bounds().resident_tokens));
  BH_ASSIGN(CacheRace race, CacheRace::make(bench, *grouped, models.grouped));
  table.add(race.peak_row(bench.bounds().grouped_peak));
  return {};
}

}  // namespace bulkhead::apps
