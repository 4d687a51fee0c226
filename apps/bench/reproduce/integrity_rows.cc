// What is said of page integrity: the cost of the check before and after each read, of digests at a
// handoff, and of sealing and scrubbing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "apps/bench/reproduce/check_race.h"
#include "apps/bench/reproduce/step_costs.h"
#include "apps/bench/reproduce/workbench.h"
#include "bench/steps.h"
#include "transfer/converting_link.h"
#include "transfer/remote/digest.h"

namespace bulkhead::apps::reproduce {
namespace {

using kv::PageFormat;

constexpr const char* kPublished = "integrity check costs under 1 %";
constexpr int32_t kRequests = 64;
constexpr size_t kRoundsMin = 8;
// Steps of the small model are short and six kinds of them take part: so much longer than the large
// one's, or noise leaves a part in five hundred open.
constexpr double kSmallTakes = 3.0;
constexpr int32_t kChunk = 512;  // tokens of a prompt in one forward
// Pages that the scrubber has the digest made of after a step, at most: one that waits for its
// first, and one in 64 steps that has it already.
constexpr double kDigestsPerStep = 1.0 + 1.0 / 64.0;

// All there is to tell of one model's decode steps.
class Ledger {
 public:
  Ledger(Workbench& bench, Table& table, std::string model, CheckRace race)
      : bench_(bench), table_(table), model_(std::move(model)), race_(std::move(race)) {}

  void run(double times_as_long) {
    const bool quick = bench_.options().quick;
    bench_.say(fmt::format("steps of {} with and without the check, in turn", model_));
    race_.run(quick ? 0.0 : times_as_long * bench_.options().seconds, kRoundsMin);
  }

  // Of a mode over off, by throughput and by the slowest steps.
  void add_costs(Check mode, const std::string& name) {
    const std::string measured = measured_as(fmt::format("mode {} / off", name));
    const StepCosts costs = step_costs(race_.times(Check::kOff), race_.times(mode));
    const std::optional<double> judged = bench_.speed_bound(bench_.bounds().check);
    table_.add(cost_row(kPublished, measured, costs.throughput, judged));
    table_.add(
        tail_row(kPublished, measured + ", p99 of the time between tokens", costs.p99, judged));
  }

  // Of off over steps that were built without a guard, beside copies of these over each other.
  void add_off() {
    const auto over = [this](Check less, Check more) {
      return step_costs(race_.times(less), race_.times(more)).throughput;
    };
    Interval copies;
    for (const auto& [one, other] :
         {std::pair{Check::kNone, Check::kTwin}, std::pair{Check::kNone, Check::kTriplet},
          std::pair{Check::kTwin, Check::kTriplet}}) {
      const Interval apart = over(one, other).paired;
      const Interval turned = over(other, one).paired;
      copies.low = std::min({copies.low, apart.low, turned.low});
      copies.high = std::max({copies.high, apart.high, turned.high});
    }
    table_.add(placement_row(kPublished, measured_as("mode off / a step built without a check"),
                             over(Check::kNone, Check::kOff), copies,
                             bench_.speed_bound(bench_.bounds().off)));
  }

  void add_comparisons_alone() {
    const double step = median_seconds(race_.times(Check::kOff));
    const double on = race_.comparison_seconds(Check::kAbort);
    const double off = race_.comparison_seconds(Check::kOff);
    const double share = on / step;
    table_.add(
        share_row(kPublished,
                  fmt::format("{}, the two comparisons of a step alone, {} requests of {} pages",
                              model_, kRequests, race_.pages_of_one()),
                  {share, share, share}, bench_.speed_bound(bench_.bounds().check),
                  fmt::format("{:.2f} us of a step of {:.1f} ms; off: {:.1f} ns", 1e6 * on,
                              1e3 * step, 1e9 * off)));
  }

  void add_digests() {
    const std::span<const StepTime> checked = race_.times(Check::kAbort);
    const double step = median_seconds(checked);
    const double digest = race_.digest_seconds(Check::kAbort);
    const double share = own_share(checked) + kDigestsPerStep * digest / step;
    table_.add(share_row(kPublished,
                         fmt::format("{}, {} requests, decode, all of it: comparisons, stamps, a "
                                     "page sealed in each step, one scrubbed in 64",
                                     model_, kRequests),
                         {share, share, share}, bench_.speed_bound(bench_.bounds().digest),
                         fmt::format("{:.1f} us for the digest of a page", 1e6 * digest)));
  }

 private:
  std::string measured_as(const std::string& what) const {
    return fmt::format("{}, {} requests at {} tokens, decode, {}", model_, kRequests,
                       bench_.context(), what);
  }

  Workbench& bench_;
  Table& table_;
  std::string model_;
  CheckRace race_;
};

kv::PageLayout layout_of(const model::Decoder& decoder, PageFormat format) {
  kv::PageLayout layout = decoder.facts().cache;
  layout.format = format;
  return layout;
}

// The pages of one prompt on their way to another process.
class Handoff {
 public:
  static base::Result<Handoff> make(const bench::FilledCache& cache, const kv::PageLayout& to) {
    const kv::PageLayout& from = cache.view().layout;
    BH_ASSIGN(transfer::PageToBytes convert, transfer::page_to_bytes(from, to));
    return Handoff(cache, std::move(convert), to.page_bytes());
  }

  void convert() {
    const kv::CacheView& view = cache_.view();
    const size_t bytes = view.layout.page_bytes();
    for (size_t page = 0; page < staged_.size(); ++page) {
      convert_({view.arena + page * bytes, bytes}, view.layout.page_tokens, staged_[page]);
    }
  }

  // By whoever sends and by whoever receives.
  void digest_twice() {
    for (size_t page = 0; page < staged_.size(); ++page) {
      const transfer::remote::GrantPage granted = {
          .ref = {static_cast<kv::PageId>(page), page + 1},
          .token_begin = static_cast<int32_t>(page) * cache_.view().layout.page_tokens,
          .token_count = cache_.view().layout.page_tokens};
      const auto sent = transfer::remote::page_digest({1, 2}, granted, staged_[page]);
      const auto landed = transfer::remote::page_digest({1, 2}, granted, staged_[page]);
      BH_CHECK(sent == landed, "the same bytes have one digest");
    }
  }

 private:
  Handoff(const bench::FilledCache& cache, transfer::PageToBytes convert, size_t bytes)
      : cache_(cache),
        convert_(std::move(convert)),
        staged_(static_cast<size_t>(cache.context() / cache.view().layout.page_tokens),
                std::vector<std::byte>(bytes)) {}

  const bench::FilledCache& cache_;
  transfer::PageToBytes convert_;
  std::vector<std::vector<std::byte>> staged_;
};

base::Status handoff_row(Workbench& bench, model::Decoder& decoder, const std::string& model,
                         Table& table) {
  const int32_t chunk = std::min(kChunk, bench.context());
  BH_ASSIGN(const bench::FilledCache cache,
            bench::FilledCache::create(decoder, layout_of(decoder, PageFormat::kBf16), 1, chunk));
  BH_ASSIGN(Handoff handoff, Handoff::make(cache, layout_of(decoder, PageFormat::kFp8E4m3)));
  bench::Step prompt = bench::Step::prompt(decoder, cache, chunk, 0);
  const auto times = bench::time_in_turn(
      bench.rounds(),
      {[&] { prompt.run(); }, [&] { handoff.convert(); }, [&] { handoff.digest_twice(); }});
  const double of_conversion = ratio_of(times[2], times[1]).median;
  table.add(share_row(
      kPublished,
      fmt::format("{}, prompt of {} tokens, digests of its FP8 pages by sender and receiver over "
                  "its prefill",
                  model, chunk),
      ratio_of(times[2], times[0]), bench.speed_bound(bench.bounds().digest),
      fmt::format("{:.0f} % of the pages' conversion", 100.0 * of_conversion)));
  return {};
}

base::Status rows_of(Workbench& bench, const std::string& model, std::span<const Check> checks,
                     Table& table) {
  BH_ASSIGN(const std::unique_ptr<model::Decoder> decoder, bench.load(model, "fp8"));
  {
    BH_ASSIGN(bench::FilledCache cache,
              bench::FilledCache::create(*decoder, layout_of(*decoder, PageFormat::kFp8E4m3),
                                         kRequests, bench.context()));
    BH_ASSIGN(CheckRace race, CheckRace::make(*decoder, std::move(cache), checks));
    Ledger ledger(bench, table, model, std::move(race));
    const auto takes_part = [checks](Check check) {
      return std::find(checks.begin(), checks.end(), check) != checks.end();
    };
    ledger.run(takes_part(Check::kNone) ? kSmallTakes : 1.0);
    ledger.add_costs(Check::kAbort, "abort");
    if (takes_part(Check::kObserve)) ledger.add_costs(Check::kObserve, "observe");
    if (takes_part(Check::kNone)) ledger.add_off();
    ledger.add_comparisons_alone();
    ledger.add_digests();
  }
  return handoff_row(bench, *decoder, model, table);
}

}  // namespace

base::Status integrity_rows(Workbench& bench, Table& table) {
  // A step of the large model is long, so that few fit; a step of the small one is the dearest
  // place for a check.
  constexpr std::array kOfTheLarge = {Check::kOff, Check::kAbort};
  constexpr std::array kOfTheSmall = {Check::kNone, Check::kTwin,    Check::kTriplet,
                                      Check::kOff,  Check::kObserve, Check::kAbort};
  const ReproduceModels models = models_of(bench.options());
  BH_TRY(rows_of(bench, models.latent, kOfTheLarge, table));
  return rows_of(bench, models.small, kOfTheSmall, table);
}

}  // namespace bulkhead::apps::reproduce
