#include "apps/drill/session.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace bulkhead::apps {
namespace {

constexpr std::chrono::seconds kSettleWithin{60};
constexpr std::chrono::milliseconds kPoll{20};

}  // namespace

base::Result<std::unique_ptr<Session>> Session::begin(Target target, const std::string& name) {
  std::unique_ptr<Session> session(new Session(std::move(target)));
  BH_TRY(session->check_server(name));
  BH_ASSIGN(session->model_, session->admin_.model());
  BH_TRY(session->take_answers());
  return session;
}

base::Status Session::check_server(const std::string& name) {
  BH_ASSIGN(const IntegrityReport report, admin_.integrity());
  if (!report.injects) {
    return base::unsupported(fmt::format(
        "{} was not started with --inject-faults, so it is left alone. Start a server for tests "
        "with that flag, or let the drill start its own: bulkhead drill --model MODEL",
        name));
  }
  BH_ASSIGN(const ServerGauges gauges, admin_.gauges());
  if (gauges.requests > 0) {
    return base::unsupported(fmt::format(
        "{} has {} requests of others, and the drill would damage them", name, gauges.requests));
  }
  mode_ = report.mode;
  for (const IntegrityReport::Pool& pool : report.pools) pools_.push_back(pool.name);
  return {};
}

base::Status Session::take_answers() {
  BH_ASSIGN(const ServerGauges gauges, admin_.gauges());
  asks_ = make_asks(target_, model_, gauges.page_tokens);
  BH_ASSIGN(alone_, crowd_.one_by_one(asks_));
  for (const Answer& answer : alone_) {
    if (fate_of(answer, answer) == Fate::kSame && !answer.tokens.empty()) continue;
    return base::unsupported(
        fmt::format("a request that was alone was not answered: {}", describe(answer)));
  }
  return {};
}

base::Result<Tally> Session::wave(const FaultOrder* order, std::string& trouble) const {
  BH_ASSIGN(const std::vector<Answer> answers, crowd_.together(asks_, order));
  Tally tally;
  for (size_t i = 0; i < answers.size(); ++i) {
    const Fate fate = fate_of(answers[i], alone_[i]);
    tally.add(fate);
    if (fate == Fate::kBroken && trouble.empty()) trouble = describe(answers[i]);
  }
  return tally;
}

base::Status Session::short_request() {
  BH_TRY(crowd_.one_by_one({make_short_ask(target_, model_, ++short_requests_)}));
  return {};
}

base::Result<std::optional<uint64_t>> Session::settle() const {
  const auto end = std::chrono::steady_clock::now() + kSettleWithin;
  for (;;) {
    BH_ASSIGN(const ServerGauges gauges, admin_.gauges());
    if (gauges.requests == 0 && gauges.used == 0) return std::optional(gauges.at_rest);
    if (std::chrono::steady_clock::now() > end) return std::optional<uint64_t>();
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace bulkhead::apps
