// One generation and its one answer: submits, turns events into chunks or a whole answer, ends.
//
// Threads: the I/O thread only (events reach it through an EventMailbox).
// Invariants: exactly one answer; nothing is sent before the first event, so an early failure has
// its own status; after the head a failure is an error event and no [DONE]; a client that leaves
// cancels the generation; figures are recorded once, when the FinishEvent has come.
#pragma once

#include <memory>
#include <string>

#include "api/answer/answer_format.h"
#include "api/answer/event_mailbox.h"
#include "api/api_metrics.h"
#include "api/errors.h"
#include "api/request/generation_plan.h"
#include "base/log.h"
#include "http/server.h"

namespace bulkhead::api {

// What every generation of an Api shares. All of it outlives them.
struct GenerationServices {
  wire::Generator& generator;
  const text::Tokenizer& tokenizer;
  ApiMetrics& metrics;
  base::Logger& logger;
  const base::Clock& clock;
  EventMailbox::Post post;
  const std::vector<wire::TokenId>& eos_ids;
  size_t backlog_events_max = 0;
};

struct GenerationInput {
  GenerationPlan plan;
  std::unique_ptr<AnswerFormat> format;
  std::shared_ptr<http::ResponseWriter> writer;
  std::string request_id;  // for headers and error bodies
  RouteId route = RouteId::kChat;
  base::Nanoseconds arrived{0};
};

class Generation final : public std::enable_shared_from_this<Generation> {
 public:
  Generation(const GenerationServices& services, GenerationInput input);

  // Submits the plan; a refusal is answered at once.
  void start();

 private:
  void on_events(EventBatch& batch);
  void on_token(TimedToken token, std::string& out);
  void on_finish(const wire::FinishEvent& event);
  void on_gone();

  void begin_stream(std::string& out);
  void take(Piece piece, std::string& out);
  void write(std::string out);
  void succeed(const wire::FinishEvent& event);
  void fail(const ApiError& error);
  void record(const wire::FinishEvent& event);

  RunningUsage running_usage() const;
  Usage usage(const wire::FinishEvent& event) const;
  Outcome outcome(const wire::FinishEvent& event) const;
  bool succeeded(const wire::FinishEvent& event) const;

  const GenerationServices& services_;
  GenerationInput input_;
  OutputPipeline pipeline_;
  Piece all_;  // the whole answer, when it is not streamed
  wire::RequestId id_ = 0;
  int32_t prompt_tokens_ = 0;
  int32_t max_tokens_ = 0;
  base::Nanoseconds previous_token_{0};
  bool any_token_ = false;
  bool streaming_ = false;  // the head is out
  bool answered_ = false;   // the answer is complete
  bool gone_ = false;       // the client is
};

}  // namespace bulkhead::api
