#include "apps/drill/exercise.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace bulkhead::apps {
namespace {

constexpr int kWavesMax = 4;            // until a fault has a victim, and until all is well again
constexpr int kShortRequestsMax = 200;  // until a page at rest has its digest, and so can be hit
constexpr std::chrono::seconds kNoticedWithin{60};
constexpr std::chrono::milliseconds kEndPatience{3000};
constexpr std::chrono::milliseconds kPoll{20};

bool any_of_kinds(const NoticedByKind& noticed, const FaultClass& fault) {
  return std::any_of(fault.kinds.begin(), fault.kinds.end(), [&noticed](std::string_view kind) {
    return noticed.count(std::string(kind)) > 0;
  });
}

}  // namespace

base::Result<Matrix> Exercise::run() {
  BH_TRY(connect());
  Matrix matrix;
  matrix.model = session_->model().name;
  matrix.mode = session_->mode();
  const std::vector<Task> all = tasks();
  matrix.rows.reserve(all.size());
  for (const Task& task : all) {
    BH_ASSIGN(Row row, run_task(task));
    if (progress_) progress_(row, matrix.rows.size() + 1, all.size());
    matrix.rows.push_back(std::move(row));
  }
  return matrix;
}

base::Status Exercise::connect() {
  session_.reset();
  server_.reset();
  if (!running_) {
    BH_ASSIGN(server_, ThrowawayServer::start({options_.model_path, options_.placement,
                                               options_.integrity, options_.threads}));
    BH_ASSIGN(session_, Session::begin(server_->target(), "the server"));
    return {};
  }
  BH_ASSIGN(session_, Session::begin(*running_, options_.url));
  if (session_->mode() != "off") return {};
  return base::unsupported(fmt::format(
      "{} watches no pages (--kv-integrity off): faults would damage its memory and end it. Let "
      "the drill start a server that may end: bulkhead drill --model MODEL --kv-integrity off",
      options_.url));
}

std::vector<Exercise::Task> Exercise::tasks() const {
  std::vector<Task> out = {{&no_fault(), "all"}};
  const std::vector<std::string>& pools = session_->pools();
  for (const FaultClass& fault : fault_classes()) {
    const bool wanted = options_.faults.empty() ||
                        std::find(options_.faults.begin(), options_.faults.end(), fault.name) !=
                            options_.faults.end();
    const size_t first = fault.where == Where::kAnswers ? pools.size() - 1 : 0;
    const size_t last = fault.where == Where::kPrompts ? 0 : pools.size() - 1;
    for (size_t i = first; wanted && i <= last; ++i) out.push_back({&fault, pools[i]});
  }
  return out;
}

base::Result<Row> Exercise::run_task(const Task& task) {
  Row row;
  row.fault = task.fault;
  row.pool = task.pool;
  for (int round = 0; round < options_.rounds; ++round) {
    // Damage that nobody stops stays, so what is seen would not be this fault's.
    const bool spoilt = session_ == nullptr || (!running_ && !stops_damage(task));
    if (spoilt) BH_TRY(connect());
    ++row.rounds;
    const base::Status status = run_round(task, row);
    const std::string how = server_ == nullptr ? std::string()
                            : status.ok()      ? server_->ended({})
                                               : server_->ended(kEndPatience);
    if (how.empty()) {
      BH_TRY(status);
      continue;
    }
    row.server_ended = how;
    row.injected = row.rounds;
    session_.reset();
  }
  return row;
}

// Elsewhere books stay wrong, and pages of leases that nothing matches never come back.
bool Exercise::stops_damage(const Task& task) const {
  return session_->mode() == "abort" || task.fault->moment == Moment::kNever;
}

// Errors: of a server that went away, above all.
base::Status Exercise::run_round(const Task& task, Row& row) {
  BH_TRY(prepare());
  std::optional<uint64_t> pages;
  if (stops_damage(task)) {
    BH_ASSIGN(pages, session_->settle());
  }
  BH_ASSIGN(const IntegrityReport before, session_->admin().integrity());
  BH_TRY(damage(task, row));
  BH_TRY(recover(task, before, row));
  if (stops_damage(task)) {
    BH_ASSIGN(const std::optional<uint64_t> pages_then, session_->settle());
    row.unbalanced += pages_then && pages_then == pages ? 0 : 1;
  }
  BH_ASSIGN(const IntegrityReport after, session_->admin().integrity());
  row.injected += static_cast<int>(after.done - before.done);
  const NoticedByKind noticed = noticed_since(before, after);
  row.noticed_rounds += any_of_kinds(noticed, *task.fault) ? 1 : 0;
  add(row.noticed, noticed);
  // What was not seen may be kept for others.
  const bool unseen = task.fault->moment != Moment::kNever && !task.fault->seen();
  return unseen ? session_->admin().flush_cache() : base::Status();
}

// Where faults are only observed, what they left behind is forgotten, and the index filled again.
base::Status Exercise::prepare() {
  if (session_->mode() != "observe") return {};
  BH_TRY(session_->admin().flush_cache());
  std::string unused;
  BH_TRY(session_->wave(nullptr, unused));
  return {};
}

base::Result<Tally> Exercise::wave(const FaultOrder* order, Row& row) {
  BH_ASSIGN(const Tally tally, session_->wave(order, row.trouble));
  row.answers.add(tally);
  if (tally.broken > 0 && server_ != nullptr && !server_->ended(kEndPatience).empty()) {
    return base::Error{base::ErrorCode::kUnavailable, "the server ended", {}};
  }
  return tally;
}

base::Status Exercise::damage(const Task& task, Row& row) {
  const FaultOrder order{std::string(task.fault->name), task.pool};
  Moment moment = task.fault->moment;
  // A pool that only computes prompts has no steps once all answers have begun.
  const bool prompts_alone = session_->pools().size() > 1 && task.pool == session_->pools().front();
  if (moment == Moment::kStreaming && prompts_alone) moment = Moment::kBefore;
  BH_ASSIGN(const IntegrityReport before, session_->admin().integrity());
  if (moment == Moment::kAtRest) BH_TRY(damage_at_rest(task, before));
  if (moment == Moment::kBefore) BH_TRY(session_->admin().order(order.fault, order.pool));
  BH_TRY(wave(moment == Moment::kStreaming ? &order : nullptr, row));
  if (moment == Moment::kNever) return {};
  for (int i = 0; i < kWavesMax; ++i) {
    BH_ASSIGN(const IntegrityReport now, session_->admin().integrity());
    if (now.waiting == 0) break;
    BH_TRY(wave(nullptr, row));
  }
  return {};
}

// Where pages are watched, nobody reads the page before the scrubber had a look at it.
base::Status Exercise::damage_at_rest(const Task& task, const IntegrityReport& before) {
  BH_TRY(session_->admin().order(task.fault->name, task.pool));
  for (int i = 0; i < kShortRequestsMax; ++i) {
    BH_TRY(session_->short_request());
    BH_ASSIGN(const IntegrityReport now, session_->admin().integrity());
    if (now.waiting == 0) break;
  }
  const auto end = std::chrono::steady_clock::now() + kNoticedWithin;
  while (session_->mode() != "off" && std::chrono::steady_clock::now() < end) {
    BH_ASSIGN(const bool noticed, is_noticed(*task.fault, before));
    if (noticed) break;
    std::this_thread::sleep_for(kPoll);
  }
  return {};
}

base::Result<bool> Exercise::is_noticed(const FaultClass& fault,
                                        const IntegrityReport& before) const {
  BH_ASSIGN(const IntegrityReport now, session_->admin().integrity());
  return any_of_kinds(noticed_since(before, now), fault);
}

// The next requests work. Some faults take effect only when somebody takes the page: then one of
// these meets it, ends, and works when it is sent again.
base::Status Exercise::recover(const Task& task, const IntegrityReport& before, Row& row) {
  const bool ends = session_->mode() == "abort";
  for (int i = 0; i < kWavesMax; ++i) {
    BH_ASSIGN(const Tally tally, wave(nullptr, row));
    BH_ASSIGN(const bool noticed, is_noticed(*task.fault, before));
    const bool well = tally.same == tally.total();
    if (!ends || (well && (noticed || !task.fault->seen()))) return {};
  }
  ++row.unrecovered;
  return {};
}

}  // namespace bulkhead::apps
