#include "apps/bench/reproduce/check_race.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "kernels/bench/peaks.h"

namespace bulkhead::apps::reproduce {
namespace {

using kv::integrity::Mode;
using Clock = std::chrono::steady_clock;

double between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// What engine::StepGuard is to a step that was built without one.
template <int kCopy>
struct NoPlaceForAGuard {
  static bool before(const engine::StepPlan&, std::span<const engine::Sequence>) { return true; }
  // No instruction, but another one for each copy, or the compiler would make one of all.
  static void after() { asm volatile("" ::"i"(kCopy)); }
  static bool failed(size_t) { return false; }
  static void wrote_token(const engine::Sequence&) {}
};

bool has_guard(Check check) {
  return check != Check::kNone && check != Check::kTwin && check != Check::kTriplet;
}

Mode mode_of(Check check) {
  switch (check) {
    case Check::kNone:
    case Check::kTwin:
    case Check::kTriplet:
    case Check::kOff:
      return Mode::kOff;
    case Check::kObserve:
      return Mode::kObserve;
    case Check::kAbort:
      return Mode::kAbort;
  }
  return Mode::kOff;
}

// Books need no bytes behind them: the smallest page with as many tokens.
kv::PageLayout books_layout(int32_t page_tokens) {
  kv::PageLayout layout;
  layout.page_tokens = page_tokens;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 16;
  return layout;
}

}  // namespace

base::Result<CheckRace> CheckRace::make(model::Decoder& decoder, bench::FilledCache cache,
                                        std::span<const Check> checks) {
  BH_CHECK(cache.context() >= cache.view().layout.page_tokens, "a page for each sequence");
  BH_ASSIGN(std::unique_ptr<engine::Executor> executor,
            engine::Executor::create(decoder, cache.view()));
  CheckRace race(std::move(cache), std::move(executor));
  race.lanes_.reserve(checks.size());
  for (const Check check : checks) {
    BH_ASSIGN(Lane lane, race.make_lane(check));
    race.lanes_.push_back(std::move(lane));
  }
  return race;
}

CheckRace::CheckRace(bench::FilledCache cache, std::unique_ptr<engine::Executor> executor)
    : cache_(std::move(cache)),
      executor_(std::move(executor)),
      sampler_(executor_->vocabulary_size()),
      plan_(executor_->limits()) {}

base::Result<CheckRace::Lane> CheckRace::make_lane(Check check) const {
  Lane lane;
  lane.check = check;
  const int32_t page_tokens = cache_.view().layout.page_tokens;
  BH_ASSIGN(lane.pool,
            kv::PagePool::create(books_layout(page_tokens),
                                 {.pages = cache_.view().pages,
                                  .integrity = {.mode = mode_of(check), .pool = "decode"}}));
  const auto count = static_cast<size_t>(cache_.sequences());
  if (has_guard(check)) lane.guard = engine::make_step_guard(*lane.pool, count);
  lane.sequences.reserve(count);
  for (int32_t i = 0; i < cache_.sequences(); ++i) {
    lane.sequences.push_back(make_sequence(*lane.pool, i));
  }
  return lane;
}

engine::Sequence CheckRace::make_sequence(kv::PagePool& pool, int32_t index) const {
  const int32_t page_tokens = cache_.view().layout.page_tokens;
  const int32_t length = cache_.context() - index % page_tokens;
  wire::GenerateRequest request;
  request.id = static_cast<wire::RequestId>(index) + 1;
  request.prompt = bench::tokens_of(index, length, executor_->vocabulary_size());
  request.sampling.temperature = 0.0f;
  request.cache.tenant.fill(static_cast<uint8_t>(index + 1));
  request.max_tokens = page_tokens;
  engine::Sequence sequence{wire::SequenceState(std::move(request), static_cast<wire::Slot>(index)),
                            {}};
  wire::SequenceState& state = sequence.state;
  state.written = length;
  state.tokens.reserve(static_cast<size_t>(length) + static_cast<size_t>(page_tokens) + 1);
  state.tokens.push_back(state.tokens.front());
  const auto pages = static_cast<int64_t>(pages_of_one()) * page_tokens;
  sequence.pages = kv::PageTable(pool, pages, kv::label_of(state.cache.tenant));
  BH_CHECK(sequence.pages.cover(pages), "the pool has as many pages as the cache");
  BH_CHECK(std::ranges::equal(sequence.pages.pages(), cache_.pages(index)),
           "pages are handed out in their order");
  return sequence;
}

const CheckRace::Lane& CheckRace::lane(Check check) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [check](const Lane& lane) { return lane.check == check; });
  BH_CHECK(found != lanes_.end(), "a check that takes part");
  return *found;
}

CheckRace::Lane& CheckRace::lane(Check check) {
  return const_cast<Lane&>(std::as_const(*this).lane(check));
}

void CheckRace::plan(const Lane& lane) {
  plan_.clear();
  for (const engine::Sequence& sequence : lane.sequences) {
    plan_.add(engine::slice_of(sequence, 1, model::LogitsFor::kLast));
  }
}

// As decode::DecodePool steps, with all of a guard's calls behind a run in one stretch, so that two
// looks at the clock are enough for them.
template <typename Guard>
StepTime CheckRace::step(Guard& guard, Lane& lane) {
  const Clock::time_point begin = Clock::now();
  plan(lane);
  const Clock::time_point planned = Clock::now();
  BH_CHECK(guard.before(plan_, lane.sequences), "nobody damages these pages");
  const Clock::time_point checked = Clock::now();
  executor_->run(plan_);
  for (engine::Sequence& sequence : lane.sequences) sequence.state.written += 1;
  const Clock::time_point read = Clock::now();
  guard.after();
  for (size_t i = 0; i < lane.sequences.size(); ++i) {
    BH_CHECK(!guard.failed(i), "nobody damages these pages");
    guard.wrote_token(lane.sequences[i]);
  }
  const Clock::time_point told = Clock::now();
  for (size_t i = 0; i < lane.sequences.size(); ++i) {
    wire::SequenceState& state = lane.sequences[i].state;
    const base::Result<wire::TokenEvent> choice = sampler_.sample(executor_->logits(i), state);
    BH_CHECK(choice.ok(), "logits are numbers");
    state.tokens.push_back(choice->token);
  }
  return {between(begin, Clock::now()), between(planned, checked) + between(read, told)};
}

StepTime CheckRace::step(Lane& lane) {
  if (lane.guard) return step(*lane.guard, lane);
  const auto step_without = [&](auto none) { return step(none, lane); };
  if (lane.check == Check::kTwin) return step_without(NoPlaceForAGuard<1>{});
  if (lane.check == Check::kTriplet) return step_without(NoPlaceForAGuard<2>{});
  return step_without(NoPlaceForAGuard<0>{});
}

void CheckRace::rewind(Lane& lane) const {
  for (engine::Sequence& sequence : lane.sequences) {
    sequence.state.written = sequence.state.prompt_tokens;
    sequence.state.tokens.resize(static_cast<size_t>(sequence.state.prompt_tokens) + 1);
    if (lane.guard) lane.guard->wrote(sequence, 0);  // as prefill does
  }
}

void CheckRace::run(double seconds, size_t rounds) {
  const int32_t slots = static_cast<int32_t>(pages_of_one()) * cache_.view().layout.page_tokens;
  const auto cycle = static_cast<size_t>(slots) - static_cast<size_t>(cache_.context());
  for (Lane& lane : lanes_) {  // first touches are nobody's time
    step(lane);
    rewind(lane);
  }
  const Clock::time_point begin = Clock::now();
  for (size_t round = 0; round < rounds || between(begin, Clock::now()) < seconds; ++round) {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      // Who goes first changes, so that nobody always comes behind the same one.
      const size_t turn = round % 2 == 0 ? i : lanes_.size() - 1 - i;
      Lane& lane = lanes_[(turn + round / 2) % lanes_.size()];
      lane.times.push_back(step(lane));
      if (lane.times.size() % cycle == 0) rewind(lane);
    }
  }
}

double CheckRace::comparison_seconds(Check check) {
  constexpr int kCalls = 200;
  constexpr int kSamples = 25;
  Lane& one = lane(check);
  engine::StepGuard& guard = *one.guard;
  plan(one);
  std::vector<double> samples;
  samples.reserve(kSamples);
  for (int sample = 0; sample < kSamples; ++sample) {
    samples.push_back(bench::seconds_of([&] {
                        for (int call = 0; call < kCalls; ++call) {
                          BH_CHECK(guard.before(plan_, one.sequences), "nothing is damaged");
                          guard.after();
                        }
                      }) /
                      kCalls);
  }
  return kernels::spread_of(samples).median;
}

double CheckRace::digest_seconds(Check check) {
  kv::integrity::Tracker& tracker = lane(check).pool->integrity();
  const kv::CacheView& view = cache_.view();
  const size_t bytes = view.layout.page_bytes();
  std::vector<double> samples;
  samples.reserve(static_cast<size_t>(view.pages));
  for (kv::PageId page = 0; page < view.pages; ++page) {
    const std::span<const std::byte> content(view.arena + static_cast<size_t>(page) * bytes, bytes);
    samples.push_back(bench::seconds_of([&] { tracker.seal(page, content); }));
  }
  return kernels::spread_of(samples).median;
}

}  // namespace bulkhead::apps::reproduce
