#include "apps/drill/crowd.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/json_writer.h"
#include "base/rng.h"
#include "http/async_client.h"

namespace bulkhead::apps {
namespace {

constexpr size_t kAsks = 8;
constexpr size_t kTenants = 2;
constexpr uint64_t kSeed = 20261130;
constexpr int64_t kFirstId = 3;  // below that, and above all text, there often are control tokens
constexpr int64_t kIdsMax = 10000;
constexpr std::chrono::minutes kTimeout{10};

void write_ids(base::JsonWriter& json, uint64_t stream, uint64_t tokens, const ModelFacts& model) {
  const auto range = static_cast<uint64_t>(
      std::max<int64_t>(std::min(model.vocabulary / 2, kIdsMax) - kFirstId, 1));
  for (uint64_t i = 0; i < tokens; ++i) {
    json.value(kFirstId + static_cast<int64_t>(base::random_bits(kSeed, stream, i) % range));
  }
}

// What follows the prompt, which the caller has begun and ended.
std::string finish_body(base::JsonWriter&& json, const ModelFacts& model, uint64_t answer_tokens) {
  json.key("model").value(model.name);
  json.key("max_tokens").value(answer_tokens);
  json.key("temperature").value(0);
  json.key("ignore_eos").value(true);
  json.key("logprobs").value(2);
  json.key("stream").value(true);
  json.end_object();
  return std::move(json).take();
}

// The requests of together(), under way.
class Wave {
 public:
  Wave(const Target& target, const std::vector<Ask>& asks, const FaultOrder* order,
       http::AsyncClient& client)
      : target_(target), order_(order), client_(client) {
    readers_.resize(asks.size());
    answers_.resize(asks.size());
    quiet_ = asks.size();
    for (size_t i = 0; i < asks.size(); ++i) send(asks[i], i);
  }

  base::Result<std::vector<Answer>> run() {
    client_.run();
    BH_TRY(std::move(ordered_));
    return std::move(answers_);
  }

 private:
  void send(const Ask& ask, size_t index) {
    http::AsyncCall call;
    call.target = "/v1/completions";
    call.headers = target_.headers(ask.key);
    call.body = ask.body;
    call.timeout = kTimeout;
    call.on_piece = [this, index](std::string_view bytes) {
      const bool begun = readers_[index].begun();
      readers_[index].piece(bytes);
      if (!begun && readers_[index].begun()) one_less_quiet();
      return true;
    };
    call.on_done = [this, index](const base::Result<http::ClientResponse>& result) {
      if (!readers_[index].begun()) one_less_quiet();
      answers_[index] = readers_[index].finish(result);
    };
    client_.send(std::move(call));
  }

  void one_less_quiet() {
    if (--quiet_ > 0 || order_ == nullptr) return;
    http::AsyncCall call;
    call.target = "/v1/integrity/faults";
    call.headers = target_.headers(target_.admin_key);
    call.body = order_body(order_->fault, order_->pool);
    call.timeout = kTimeout;
    call.on_done = [this](const base::Result<http::ClientResponse>& result) {
      if (!result.ok()) {
        ordered_ = result.error();
      } else if (result->status != 200) {
        ordered_ = base::unsupported(fmt::format("an order was answered {}: {}", result->status,
                                                 result->body.substr(0, 300)));
      }
    };
    client_.send(std::move(call));
  }

  const Target& target_;
  const FaultOrder* const order_;
  http::AsyncClient& client_;
  std::vector<AnswerReader> readers_;
  std::vector<Answer> answers_;
  size_t quiet_ = 0;  // requests of which nothing has come
  base::Status ordered_;
};

}  // namespace

std::vector<Ask> make_asks(const Target& target, const ModelFacts& model, uint64_t page_tokens) {
  std::vector<Ask> asks;
  asks.reserve(kAsks);
  for (size_t i = 0; i < kAsks; ++i) {
    // Keys are taken in turn, so the first half of each tenant's is not the even numbers.
    const size_t tenant = i % kTenants;
    const bool alike = i < kAsks / 2;
    base::JsonWriter json;
    json.begin_object();
    json.key("prompt").begin_array();
    write_ids(json, alike ? 100 + tenant : i, 2 * page_tokens, model);
    write_ids(json, 200 + i, page_tokens + page_tokens / 2, model);
    json.end_array();
    asks.push_back({finish_body(std::move(json), model, std::max<uint64_t>(48, 2 * page_tokens)),
                    target.key_of_request(tenant)});
  }
  return asks;
}

Ask make_short_ask(const Target& target, const ModelFacts& model, uint64_t number) {
  base::JsonWriter json;
  json.begin_object();
  json.key("prompt").begin_array();
  write_ids(json, 1000 + number, 4, model);
  json.end_array();
  return {finish_body(std::move(json), model, 2), target.key_of_request(0)};
}

base::Result<std::vector<Answer>> Crowd::one_by_one(const std::vector<Ask>& asks) const {
  std::vector<Answer> answers;
  answers.reserve(asks.size());
  for (const Ask& ask : asks) {
    BH_ASSIGN(std::vector<Answer> one, together({ask}, nullptr));
    answers.push_back(std::move(one.front()));
  }
  return answers;
}

base::Result<std::vector<Answer>> Crowd::together(const std::vector<Ask>& asks,
                                                  const FaultOrder* order) const {
  BH_ASSIGN(const std::unique_ptr<http::AsyncClient> client,
            http::AsyncClient::create(target_.host, target_.port));
  return Wave(target_, asks, order, *client).run();
}

}  // namespace bulkhead::apps
