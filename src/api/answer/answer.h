// The one answer to a request for text: submits its choices' generations, turns their events into
// chunks or a whole answer, ends.
//
// Threads: the I/O thread only (events reach it through EventMailboxes).
// Invariants: exactly one answer; the generations are submitted all or none; nothing is sent before
// the first event, so an early failure has its own status; a choice that fails ends the answer and
// every other generation: as a status before the head, as an error event and no [DONE] after it; a
// client that leaves cancels all; every generation's figures are recorded, once.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer/answer_format.h"
#include "api/answer/choice.h"
#include "api/errors.h"
#include "http/server.h"

namespace bulkhead::api {

struct AnswerInput {
  GenerationPlan plan;
  std::unique_ptr<AnswerFormat> format;
  std::shared_ptr<http::ResponseWriter> writer;
  std::string request_id;  // for headers and error bodies
  RouteId route = RouteId::kChat;
  base::Nanoseconds arrived{0};
  std::function<void()> on_end;  // the last generation has ended, or none was begun
};

class Answer final : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const GenerationServices& services, AnswerInput input);

  // Submits the plan, once the form that its answers must have is compiled; a refusal is answered
  // at once.
  void start();
  // Ends every choice early: what there is becomes the answer, with finish_reason "abort".
  void abort();

 private:
  void compile();
  void on_compiled(const base::Result<std::shared_ptr<const wire::Constraint>>& result);
  void begin_generations();
  void submit();
  std::shared_ptr<EventMailbox> mailbox(size_t index);
  void on_events(Choice& choice, EventBatch& batch);
  void on_token(Choice& choice, TimedToken token, std::string& out);
  void on_finish(Choice& choice, const wire::FinishEvent& event);
  void on_gone(CancelCause cause);

  void begin(Choice& choice, std::string& out);
  void begin_stream();
  void add_integrity_header(http::Response& response) const;
  void take(Choice& choice, Piece piece, std::string& out);
  void write(std::string out);
  void complete(Choice& choice);
  void send_whole();
  void fail(const ApiError& error, std::optional<CancelCause> cause = {});
  void record(const Choice& choice) const;
  void cancel_all();
  bool over() const { return answered_ || gone_; }

  RunningUsage running_usage() const;
  Usage usage() const;

  const GenerationServices& services_;
  AnswerInput input_;
  std::deque<PromptState> prompts_;
  std::deque<Choice> choices_;
  std::vector<bool> begun_;  // by choice: its first chunk is made
  size_t outstanding_ = 0;   // generations whose FinishEvent has not come
  size_t complete_ = 0;      // choices that are told to their end
  bool streaming_ = false;   // the head is out
  bool answered_ = false;    // the answer is complete
  bool gone_ = false;        // the client is
  bool aborted_ = false;
  int status_ = 200;  // of the answer; 499: its client left
  // Why what is still running was cancelled; nothing: it was not, or another choice failed.
  std::optional<CancelCause> cause_;
};

}  // namespace bulkhead::api
