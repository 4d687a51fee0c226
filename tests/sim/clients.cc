#include "sim/clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wire/faults.h"

namespace bulkhead::sim {
namespace {

constexpr Nanoseconds kThink = milliseconds(3);
constexpr Nanoseconds kRetry = milliseconds(20);
// One request in so many asks for more than there can be.
constexpr uint64_t kOversized = 64;

}  // namespace

struct Clients::Asked {
  wire::GenerateRequest request;
  std::optional<uint32_t> client;  // who goes on when it is answered
  SerialAnswer expected;
  size_t scores = 0;
  size_t tokens = 0;
  bool cancelled = false;
  bool finished = false;
  bool probe = false;
};

class Clients::Sink final : public wire::EventSink {
 public:
  Sink(Clients& owner, std::shared_ptr<Asked> asked) : owner_(owner), asked_(std::move(asked)) {}
  void on_prompt(wire::PromptEvent event) override { owner_.heard_prompt(*asked_, event); }
  void on_token(wire::TokenEvent event) override { owner_.heard_token(*asked_, event); }
  void on_finish(wire::FinishEvent event) override { owner_.heard_finish(asked_, event); }

 private:
  Clients& owner_;
  std::shared_ptr<Asked> asked_;
};

Clients::Clients(const SwarmConfig& config, EventQueue& events, const FaultLedger& faults,
                 Judge& judge)
    : config_(config), events_(events), faults_(faults), judge_(judge), rng_(config.seed, 0xc11e) {}
Clients::~Clients() = default;

int32_t Clients::between(int32_t low, int32_t high) {
  return low + static_cast<int32_t>(rng_.below(static_cast<uint64_t>(high - low) + 1));
}

// --- asking

void Clients::connect(wire::Generator* generator) {
  generator_ = generator;
  for (const auto& [id, asked] : std::exchange(asked_, {})) {
    asked->finished = true;  // nobody may answer it any more
    ++judge_.stats().lost;
    if (asked->client) next(*asked->client, kRetry);
  }
}

void Clients::start() {
  for (uint32_t client = 0; client < config_.concurrency; ++client) {
    next(client, Nanoseconds{between(0, static_cast<int32_t>(kThink.count()))});
  }
}

void Clients::next(uint32_t client, Nanoseconds after) {
  events_.in(after, [this, client] { ask(client); });
}

void Clients::ask(uint32_t client) {
  if (stopped_) return;
  if (generator_ == nullptr) return next(client, kRetry);
  if (happens(config_.flushes)) generator_->flush_cache();
  std::vector<wire::GenerateRequest> requests;
  requests.push_back(draw_request());
  if (happens(config_.followed)) {
    wire::GenerateRequest follower = requests.front();
    follower.sampling.seed += 1;
    requests.push_back(std::move(follower));
  }
  if (!submit(client, std::move(requests))) next(client, kRetry);
}

void Clients::ask_again(uint32_t client, wire::GenerateRequest request) {
  if (stopped_) return;
  std::vector<wire::GenerateRequest> requests;
  request.deadline.reset();
  requests.push_back(std::move(request));
  if (generator_ == nullptr || !submit(client, std::move(requests))) next(client, kRetry);
}

bool Clients::submit(std::optional<uint32_t> client, std::vector<wire::GenerateRequest> requests) {
  std::vector<wire::Submission> batch;
  std::vector<std::shared_ptr<Asked>> all;
  for (wire::GenerateRequest& request : requests) {
    request.id = generator_->next_id();
    if (!all.empty()) request.leader = all.front()->request.id;
    auto asked = std::make_shared<Asked>();
    asked->expected = oracle_.answer(request);
    asked->request = request;
    if (all.empty()) asked->client = client;
    batch.push_back({std::move(request), std::make_shared<Sink>(*this, asked)});
    all.push_back(std::move(asked));
  }
  const base::Status status = generator_->submit_all(std::move(batch));
  if (!status.ok()) {
    judge_.note(2, static_cast<uint64_t>(status.error().code));
    if (!explains(status.error(), all.front()->request)) {
      judge_.fail("a request was refused: " + status.error().message);
    }
    return false;
  }
  for (const auto& asked : all) {
    ++judge_.stats().requests;
    judge_.note(1, asked->request.id);
    asked_.emplace(asked->request.id, asked);
    plan_cut(asked);
  }
  return true;
}

bool Clients::explains(const base::Error& error, const wire::GenerateRequest& request) const {
  if (error.code == base::ErrorCode::kResourceExhausted) return true;
  if (error.code != base::ErrorCode::kInvalidArgument) return false;
  const wire::GenerateLimits& limits = generator_->limits();
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  const int32_t whole = prompt + request.max_tokens;
  return whole > limits.context_tokens || whole > limits.cache_tokens ||
         (limits.prefill_cache_tokens > 0 && prompt > limits.prefill_cache_tokens);
}

void Clients::plan_cut(const std::shared_ptr<Asked>& asked) {
  if (!happens(config_.cancelled)) return;
  const Nanoseconds after{between(0, 40'000'000)};
  events_.in(after, [this, asked, generator = generator_] {
    if (asked->finished || generator != generator_) return;
    asked->cancelled = true;
    judge_.note(3, asked->request.id);
    generator_->cancel(asked->request.id);
  });
}

bool Clients::probe(bool may_be_hit) {
  may_be_hit_ = may_be_hit;
  if (generator_ == nullptr) return false;
  wire::GenerateRequest request = draw_request();
  request.prompt.resize(std::min<size_t>(request.prompt.size(), kPageTokens + 1));
  request.max_tokens = 2;
  request.deadline.reset();
  request.prompt_logprobs = -1;
  std::vector<wire::GenerateRequest> requests;
  requests.push_back(std::move(request));
  if (!submit(std::nullopt, std::move(requests))) return false;
  asked_.rbegin()->second->probe = true;
  return true;
}

// --- requests

std::vector<TokenId> Clients::draw_prompt() {
  const uint64_t family = rng_.below(config_.families);
  // What is shared ends at a page's end, or one token beside.
  const int32_t shared =
      std::max(0, between(0, config_.prompt_pages) * kPageTokens + between(-1, 1));
  const int32_t own = happens(0.3) ? 0 : between(1, kPageTokens + 2);
  const uint64_t writer = rng_.bits();
  std::vector<TokenId> prompt;
  const auto size = static_cast<size_t>(std::max(1, shared + own));
  prompt.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    const uint64_t bits = static_cast<int32_t>(i) < shared
                              ? base::random_bits(config_.seed, family, i)
                              : base::random_bits(writer, 1, i);
    prompt.push_back(static_cast<TokenId>(bits % static_cast<uint64_t>(kWrongRead)));
  }
  return prompt;
}

void Clients::draw_sampling(wire::GenerateRequest& request) {
  request.sampling.temperature = 0.0f;
  request.sampling.seed = rng_.bits();
  if (!happens(config_.sampled)) return;
  request.sampling.temperature = 0.8f;
  request.sampling.top_logprobs = between(-1, 2);
  if (happens(0.3)) request.sampling.top_p = 0.9f;
  if (happens(0.3)) request.sampling.frequency_penalty = 0.7f;
  if (happens(0.2)) request.sampling.logit_bias = {{between(0, kWrongRead - 1), 2.0f}};
}

wire::GenerateRequest Clients::draw_request() {
  wire::GenerateRequest request;
  request.prompt = draw_prompt();
  request.max_tokens = between(1, config_.answer_max);
  // Most fit; the pool is often smaller than what a client would like.
  const wire::GenerateLimits& limits = generator_->limits();
  const int32_t room = std::min(limits.context_tokens, limits.cache_tokens);
  if (rng_.below(kOversized) != 0) {
    const int32_t prompt_room =
        limits.prefill_cache_tokens > 0 ? std::min(room, limits.prefill_cache_tokens) : room;
    const auto most = static_cast<size_t>(std::max(1, prompt_room - 1));
    if (request.prompt.size() > most) request.prompt.resize(most);
    const auto left = room - static_cast<int32_t>(request.prompt.size());
    request.max_tokens = std::clamp(request.max_tokens, 1, std::max(1, left));
  }
  draw_sampling(request);
  request.cache.tenant = {static_cast<uint8_t>(1 + rng_.below(config_.tenants))};
  request.cache.insert = !happens(config_.opted_out);
  request.session = happens(0.2) ? 1 + rng_.below(4) : 0;
  if (happens(0.2)) request.priority = between(-1, 1);
  if (happens(config_.scored)) {
    request.prompt_logprobs = between(0, 2);
    if (happens(0.3)) request.max_tokens = 0;
  }
  if (happens(0.2)) request.stop_ids = {between(0, kWrongRead - 1)};
  if (happens(config_.deadlines)) {
    request.deadline = events_.now() + Nanoseconds{between(0, 60'000'000)};
  }
  return request;
}

// --- answers

void Clients::heard_prompt(Asked& asked, const wire::PromptEvent& event) {
  judge_.note(4, event.id);
  const auto& expected = asked.expected.scores;
  bool right = !asked.finished && asked.tokens == 0 && asked.request.prompt_logprobs >= 0 &&
               event.position == static_cast<int32_t>(asked.scores) + 1;
  for (const wire::TokenEvent& token : event.tokens) {
    right = right && asked.scores < expected.size() && same(token, expected[asked.scores]);
    ++asked.scores;
  }
  if (!right && !tolerant_)
    judge_.fail(fmt::format("request {}: scores that are not its own", event.id));
}

void Clients::heard_token(Asked& asked, const wire::TokenEvent& event) {
  judge_.note(5, event.id ^ (static_cast<uint64_t>(static_cast<uint32_t>(event.token)) << 32));
  ++judge_.stats().answer_tokens;
  const auto& expected = asked.expected.tokens;
  if (tolerant_) {
    const bool right = asked.tokens < expected.size() && same(event, expected[asked.tokens]);
    judge_.stats().wrong_tokens += right ? 0 : 1;
  } else if (event.token == kWrongRead) {
    judge_.fail(fmt::format("request {}: a token made of what it must not read", event.id));
  } else if (asked.finished) {
    judge_.fail(fmt::format("request {}: a token after its end", event.id));
  } else if (asked.tokens >= expected.size() || !same(event, expected[asked.tokens])) {
    judge_.fail(fmt::format("request {}: token {} is {}, alone it is {}", event.id, asked.tokens,
                            event.token,
                            asked.tokens < expected.size() ? expected[asked.tokens].token : -1));
  }
  ++asked.tokens;
}

std::string Clients::judge_error(const base::Error& error) const {
  const bool contract = wire::is_fault(error) || error.code == base::ErrorCode::kResourceExhausted;
  if (!contract) return "an error outside the contract: " + error.message;
  if (faults_.struck().empty()) return "an error without a cause: " + error.message;
  if (error.field == wire::kIntegrity &&
      std::none_of(faults_.struck().begin(), faults_.struck().end(),
                   [](const Fault& fault) { return damages_pages(fault.id.kind); })) {
    return "a false alarm: " + error.message;
  }
  return {};
}

std::string Clients::judge_finish(const Asked& asked, const wire::FinishEvent& event) const {
  const SerialAnswer& expected = asked.expected;
  if (event.completion_tokens != static_cast<int32_t>(asked.tokens)) return "tokens were lost";
  if (tolerant_) return {};
  switch (event.reason) {
    case wire::FinishReason::kStop:
    case wire::FinishReason::kLength:
      if (asked.tokens != expected.tokens.size() || event.reason != expected.reason ||
          asked.scores != expected.scores.size()) {
        return "it ended otherwise than alone";
      }
      return {};
    case wire::FinishReason::kCancelled:
      return asked.cancelled ? "" : "cancelled, and nobody asked for that";
    case wire::FinishReason::kDeadline:
      return asked.request.deadline && events_.now() >= *asked.request.deadline
                 ? ""
                 : "a deadline that it did not have";
    case wire::FinishReason::kError:
      if (!event.error) return "an error that says nothing";
      if (asked.probe && !may_be_hit_) return "the next request failed: " + event.error->message;
      return judge_error(*event.error);
  }
  return "no reason at all";
}

void Clients::heard_finish(const std::shared_ptr<Asked>& asked, const wire::FinishEvent& event) {
  judge_.note(6, event.id ^ (static_cast<uint64_t>(event.reason) << 56));
  if (std::exchange(asked->finished, true)) {
    judge_.fail(fmt::format("request {}: answered twice", event.id));
    return;
  }
  if (auto wrong = judge_finish(*asked, event); !wrong.empty()) {
    judge_.fail(fmt::format("request {}: {}", event.id, wrong));
  }
  RunStats& stats = judge_.stats();
  stats.preemptions += static_cast<uint64_t>(event.preemptions);
  stats.cached_tokens += static_cast<uint64_t>(event.cached_tokens);
  asked_.erase(event.id);
  const bool failed = event.reason == wire::FinishReason::kError;
  if (failed) {
    ++stats.failed;
    if (event.error && event.error->field == wire::kIntegrity) ++stats.integrity;
  } else if (event.reason == wire::FinishReason::kStop ||
             event.reason == wire::FinishReason::kLength) {
    ++stats.answered;
  } else {
    ++stats.cut;
  }
  if (!asked->client) return;
  if (failed && happens(config_.retried)) {
    events_.in(kThink, [this, asked] { ask_again(*asked->client, asked->request); });
  } else {
    next(*asked->client, Nanoseconds{between(0, static_cast<int32_t>(kThink.count()))});
  }
}

std::string Clients::describe_outstanding() const {
  std::string text;
  for (const auto& [id, asked] : asked_) {
    text += fmt::format("{}request {} ({} + {} tokens, {} told)", text.empty() ? "" : ", ", id,
                        asked->request.prompt.size(), asked->request.max_tokens, asked->tokens);
  }
  return text;
}

}  // namespace bulkhead::sim
