#include "sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "sim/clients.h"
#include "sim/event_queue.h"
#include "sim/net.h"
#include "sim/process.h"
#include "sim/timing.h"

namespace bulkhead::sim {
namespace {

// How long everything may take to come to rest once no fault strikes any more.
constexpr Nanoseconds kRest = milliseconds(120'000);

FaultKind crash_of(Role role) {
  switch (role) {
    case Role::kPrefill:
      return FaultKind::kCrashPrefill;
    case Role::kDecode:
      return FaultKind::kCrashDecode;
    default:
      return FaultKind::kCrashGateway;
  }
}

FaultKind pause_of(Role role) {
  switch (role) {
    case Role::kPrefill:
      return FaultKind::kPausePrefill;
    case Role::kDecode:
      return FaultKind::kPauseDecode;
    default:
      return FaultKind::kPauseGateway;
  }
}

class World {
 public:
  World(const SwarmConfig& config, const RunOptions& options)
      : config_(config),
        options_(options),
        rng_(config.seed, 0x3041d),
        faults_(config.seed, config.rates, options.only, events_.clock(), options.on_fault),
        net_({.seed = config.seed, .room = config.wire_room}, events_, faults_),
        clients_(config, events_, faults_, judge_) {
    events_.in(Nanoseconds{1}, [] {});
    events_.run_one();
    if (config.placement != Placement::kRemote) {
      add(Role::kEngine, 0);
    } else {
      add(Role::kGateway, 0);
      for (uint32_t i = 0; i < config.prefill_workers; ++i) add(Role::kPrefill, i);
      for (uint32_t i = 0; i < config.decode_workers; ++i) add(Role::kDecode, i);
    }
    for (size_t i = 0; i < places_.size(); ++i) schedule(i);
    if (options.tolerate_wrong_tokens) clients_.tolerate_wrong_tokens();
    clients_.start();
  }
  ~World() { clients_.connect(nullptr); }

  RunResult run() {
    while (!judge_.failure() && judge_.stats().steps < options_.steps) events_.run_one();
    quiesce();
    RunResult out;
    for (const Place& place : places_) {
      if (place.process) count(*place.process);
    }
    judge_.stats().virtual_seconds = base::to_seconds(events_.now());
    for (const Fault& fault : faults_.struck()) {
      judge_.stats().struck += is_of_memory(fault.id.kind) ? 0 : 1;
    }
    if (!judge_.failure()) check_alarms();
    out.failure = judge_.failure();
    out.digest = judge_.digest() ^ net_.digest();
    out.faults = faults_.struck();
    out.stats = judge_.stats();
    return out;
  }

  // Nothing is noticed where nothing was damaged.
  void check_alarms() {
    const auto damaged = [](const Fault& fault) { return damages_pages(fault.id.kind); };
    if (std::any_of(faults_.struck().begin(), faults_.struck().end(), damaged)) return;
    for (size_t i = 0; i <= static_cast<size_t>(Mechanism::kBooks); ++i) {
      if (judge_.stats().noticed[i] == 0) continue;
      judge_.fail(fmt::format("a false alarm: {}", to_string(static_cast<Mechanism>(i))));
    }
  }

 private:
  struct Place {
    Role role = Role::kEngine;
    uint32_t number = 0;
    std::unique_ptr<Process> process;
    ProcessId id = 0;
    Nanoseconds paused_until{0};
    Nanoseconds down_until{0};
    uint64_t steps = 0;
  };

  void add(Role role, uint32_t number) {
    Place place;
    place.role = role;
    place.number = number;
    places_.push_back(std::move(place));
    bring_up(places_.back());
  }

  void bring_up(Place& place) {
    place.id = ++starts_;
    const Birth birth{place.role, place.number, place.id,
                      base::random_bits(config_.seed, 0xb17, place.id) | 1};
    judge_.note(7, birth.nonce);
    switch (place.role) {
      case Role::kEngine:
        place.process = make_engine(config_, birth, events_.clock());
        break;
      case Role::kGateway:
        place.process = make_gateway(config_, birth, net_, events_.clock());
        break;
      case Role::kPrefill:
        place.process = make_prefill(config_, birth, net_, events_.clock());
        break;
      case Role::kDecode:
        place.process = make_decode(config_, birth, net_, events_.clock());
        break;
    }
  }

  void count(const Process& process) { process.count(judge_.stats()); }

  void kill(Place& place) {
    judge_.note(8, place.id);
    if (generator_ != nullptr && place.process->generator() == generator_) {
      generator_ = nullptr;
      clients_.connect(nullptr);
    }
    count(*place.process);
    place.process.reset();
  }

  void schedule(size_t index) {
    const auto span = static_cast<uint64_t>((kStepMost - kStepLeast).count());
    events_.in(kStepLeast + Nanoseconds{static_cast<int64_t>(rng_.below(span))}, [this, index] {
      take_step(places_[index]);
      schedule(index);
    });
  }

  void take_step(Place& place) {
    ++judge_.stats().steps;
    const Nanoseconds now = events_.now();
    if (!place.process) {
      if (now < place.down_until) return;
      bring_up(place);
    }
    if (now < place.paused_until) return;
    const std::string who = fmt::format("process {}", place.id);
    if (faults_.strikes(pause_of(place.role), who)) {
      // A breath, or longer than any lease.
      const auto span = static_cast<uint64_t>((2 * kLease).count());
      place.paused_until = now + Nanoseconds{static_cast<int64_t>(faults_.bits(0) % span)};
      return;
    }
    const bool dies = faults_.strikes(crash_of(place.role), who);
    if (dies) {
      // In the middle of the step: what it says after so many frames nobody hears.
      net_.limit_posts(place.id, static_cast<int64_t>(faults_.bits(0) % 4));
      if (faults_.bits(1) % 3 == 0) net_.silence(place.id);
      place.down_until = now + Nanoseconds{static_cast<int64_t>(faults_.bits(2) % 2'000'000'000)};
    }
    for (size_t kind = 0; kind < kFaultKinds; ++kind) {
      const auto memory = static_cast<FaultKind>(kind);
      if (!is_of_memory(memory) || !place.process->can_be_damaged()) continue;
      if (faults_.strikes(memory, who)) place.process->damage(memory, faults_.bits(0));
    }
    place.process->step();
    if (place.process->generator() != nullptr && generator_ != place.process->generator()) {
      generator_ = place.process->generator();
      clients_.connect(generator_);
    }
    if (dies) {
      kill(place);
    } else if (++place.steps % options_.audit_every == 0) {
      audit(place);
    }
  }

  void audit(Place& place) {
    ++judge_.stats().audits;
    if (auto wrong = place.process->audit(); !wrong.empty()) {
      judge_.fail(fmt::format("process {}: {}", place.id, wrong));
    }
  }

  bool is_quiet() const {
    return std::all_of(places_.begin(), places_.end(), [](const Place& place) {
      return place.process && place.process->is_quiet();
    });
  }

  // Runs until `done`, or fails with what it waited for.
  template <typename Done>
  void run_until(Done done, std::string_view what) {
    const Nanoseconds end = events_.now() + kRest;
    while (!judge_.failure() && !done()) {
      if (events_.now() > end) {
        std::string held;
        for (const Place& place : places_) {
          if (!place.process || !place.process->is_quiet()) held += fmt::format(" {}", place.id);
        }
        judge_.fail(
            fmt::format("{} did not come: outstanding [{}], processes that hold something:{}", what,
                        clients_.describe_outstanding(), held));
        return;
      }
      events_.run_one();
    }
  }

  void quiesce() {
    clients_.stop();
    faults_.stop();
    net_.heal();
    for (Place& place : places_) place.paused_until = place.down_until = events_.now();
    const auto at_rest = [this] { return clients_.outstanding() == 0 && is_quiet(); };
    run_until(at_rest, "rest");
    // Whatever was far on its way has arrived by then.
    const Nanoseconds later = events_.now() + 4 * kLease;
    run_until([&] { return events_.now() >= later; }, "the time");
    run_until(at_rest, "rest after the last frames");
    if (judge_.failure()) return;
    // A fault that still waits may strike it, and pages that were withdrawn may be what it lacks.
    const auto& struck = faults_.struck();
    const bool may_fail = std::any_of(struck.begin(), struck.end(), [](const Fault& fault) {
      return is_of_memory(fault.id.kind);
    });
    if (!clients_.probe(may_fail) && !may_fail) judge_.fail("the next request was not taken");
    run_until(at_rest, "an answer to the next request");
    const Nanoseconds published = events_.now() + milliseconds(200);
    run_until([&] { return events_.now() >= published; }, "the time");
    for (Place& place : places_) {
      if (judge_.failure()) return;
      audit(place);
      if (auto wrong = place.process->audit_quiet(); !wrong.empty()) {
        judge_.fail(fmt::format("process {} at rest: {}", place.id, wrong));
      }
    }
  }

  const SwarmConfig config_;
  const RunOptions options_;
  base::Rng rng_;
  EventQueue events_;
  Judge judge_;
  FaultLedger faults_;
  SimNet net_;
  Clients clients_;
  std::vector<Place> places_;
  wire::Generator* generator_ = nullptr;
  ProcessId starts_ = 0;
};

}  // namespace

std::string_view to_string(Mechanism mechanism) {
  static constexpr std::array<std::string_view, kMechanisms> kNames = {
      "tag",   "label",  "misplaced", "range",    "withdrawn",  "stamp",
      "scrub", "finite", "books",     "checksum", "sequence",   "fence",
      "cover", "record", "lease",     "session",  "membership",
  };
  return kNames[static_cast<size_t>(mechanism)];
}

void RunStats::add(const RunStats& other) {
  steps += other.steps;
  requests += other.requests;
  answered += other.answered;
  cut += other.cut;
  failed += other.failed;
  integrity += other.integrity;
  lost += other.lost;
  tokens += other.tokens;
  answer_tokens += other.answer_tokens;
  pages += other.pages;
  audits += other.audits;
  preemptions += other.preemptions;
  cached_tokens += other.cached_tokens;
  evicted_pages += other.evicted_pages;
  wrong_rows += other.wrong_rows;
  wrong_tokens += other.wrong_tokens;
  struck += other.struck;
  checks += other.checks;
  entries += other.entries;
  for (size_t i = 0; i < kMechanisms; ++i) noticed[i] += other.noticed[i];
  virtual_seconds += other.virtual_seconds;
}

RunResult run_world(const SwarmConfig& config, const RunOptions& options) {
  World world(config, options);
  return world.run();
}

}  // namespace bulkhead::sim
