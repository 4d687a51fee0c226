#include "api/answer/answer.h"

#include <utility>

#include "api/integrity_route.h"
#include "api/request_log.h"
#include "api/timing_headers.h"
#include "http/sse.h"

namespace bulkhead::api {
namespace {

constexpr std::string_view kDone = "[DONE]";
constexpr int kClientGone = 499;

ApiError backlog_overflow() {
  return ApiError{503,
                  "overloaded_error",
                  "capacity_exceeded",
                  "the server could not keep up with this answer; try again",
                  {},
                  true};
}

}  // namespace

Answer::Answer(const GenerationServices& services, AnswerInput input)
    : services_(services), input_(std::move(input)) {
  GenerationPlan& plan = input_.plan;
  for (PromptPlan& prompt : plan.prompts) prompts_.push_back({std::move(prompt), {}});
  plan.prompts.clear();
  int32_t index = 0;
  for (PromptState& prompt : prompts_) {
    for (int32_t k = 0; k < plan.n; ++k) {
      choices_.emplace_back(services_, plan, index++, prompt, k == 0);
    }
  }
  begun_.resize(choices_.size());
}

void Answer::start() {
  input_.writer->on_abort([weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    const bool slow = self->input_.writer->too_slow();
    self->on_gone(slow ? CancelCause::kSlowReader : CancelCause::kDisconnect);
  });
  if (input_.plan.constraint && !gone_) return compile();
  begin_generations();
}

void Answer::compile() {
  if (services_.constraints == nullptr) {
    fail(unsupported_parameter("response_format", "this server cannot constrain answers"));
    return begin_generations();
  }
  services_.constraints->compile(
      std::move(*input_.plan.constraint), [self = shared_from_this()](auto result) {
        self->services_.post([self, result = std::move(result)] { self->on_compiled(result); });
      });
}

void Answer::on_compiled(const base::Result<std::shared_ptr<const wire::Constraint>>& result) {
  if (result.ok()) {
    input_.plan.request.constraint = *result;
  } else {
    fail(from_constraint(result.error()));
  }
  begin_generations();
  if (aborted_) cancel_all();
}

void Answer::begin_generations() {
  if (!over()) submit();
  if (outstanding_ == 0 && input_.on_end) input_.on_end();
}

void Answer::submit() {
  std::vector<wire::Submission> batch;
  batch.reserve(choices_.size());
  wire::RequestId leader = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    const auto number = static_cast<int32_t>(i) % input_.plan.n;
    batch.push_back(
        {choice.request(input_.plan, number, choice.leader() ? 0 : leader), mailbox(i)});
    if (choice.leader()) leader = choice.id();
  }
  outstanding_ = choices_.size();
  if (auto status = services_.generator.submit_all(std::move(batch)); !status) {
    outstanding_ = 0;
    return fail(from_submit(status.error()));
  }
  services_.metrics.accepted(input_.plan.n);
}

std::shared_ptr<EventMailbox> Answer::mailbox(size_t index) {
  return std::make_shared<EventMailbox>(services_.post, services_.clock,
                                        services_.backlog_events_max,
                                        [self = shared_from_this(), index](EventBatch& batch) {
                                          self->on_events(self->choices_[index], batch);
                                        });
}

void Answer::on_events(Choice& choice, EventBatch& batch) {
  if (!choice.take_scores(std::move(batch.prompt))) fail(internal_error());
  std::string out;
  for (TimedToken& token : batch.tokens) on_token(choice, std::move(token), out);
  if (!out.empty() && !over()) write(std::move(out));
  if (batch.overflowed) fail(backlog_overflow(), CancelCause::kSlowReader);
  if (batch.finish) on_finish(choice, *batch.finish);
}

void Answer::on_token(Choice& choice, TimedToken token, std::string& out) {
  choice.observe(token, input_.arrived);
  if (over() || choice.stopped()) return;
  begin(choice, out);
  if (over()) return;
  take(choice, choice.push(std::move(token.event)), out);
  if (choice.stopped()) services_.generator.cancel(choice.id());
}

// What comes before a choice's first token.
void Answer::begin(Choice& choice, std::string& out) {
  const auto index = static_cast<size_t>(choice.index());
  if (begun_[index]) return;
  begun_[index] = true;
  const GenerationPlan& plan = input_.plan;
  PromptState& prompt = prompts_[index / static_cast<size_t>(plan.n)];
  const bool scores_wanted = plan.request.prompt_logprobs >= 0;
  // The generator scores a prompt before it goes on, so only an abort can come first.
  if (scores_wanted && !prompt.scored() && !aborted_) return fail(internal_error());
  if (scores_wanted) choice.view().prompt_scores = prompt.scores;
  if (plan.stream) {
    begin_stream();
    const std::string opening = input_.format->opening_chunk(choice.view(), running_usage());
    if (!opening.empty()) out += http::sse_event(opening);
  }
  if (plan.echo && (!scores_wanted || prompt.scored())) take(choice, choice.echo(), out);
}

void Answer::begin_stream() {
  if (std::exchange(streaming_, true)) return;
  http::Response head;
  head.content_type = "text/event-stream";
  head.headers.push_back({"x-request-id", input_.request_id});
  add_integrity_header(head);
  head.headers.push_back({"Cache-Control", "no-store"});
  head.headers.push_back({"X-Accel-Buffering", "no"});  // proxies must not collect events
  input_.writer->start_stream(std::move(head));
}

void Answer::add_integrity_header(http::Response& response) const {
  if (auto header = integrity_header(services_.integrity)) {
    response.headers.push_back(std::move(*header));
  }
}

void Answer::take(Choice& choice, Piece piece, std::string& out) {
  if (piece.empty()) return;
  if (!input_.plan.stream) return choice.all().append(std::move(piece));
  for (const Piece& part : streamed_parts(std::move(piece))) {
    out += http::sse_event(input_.format->piece_chunk(choice.view(), part, running_usage()));
  }
}

void Answer::write(std::string out) {
  if (gone_ || input_.writer->write(std::move(out))) return;
  on_gone(CancelCause::kSlowReader);
}

void Answer::on_gone(CancelCause cause) {
  if (over()) return;
  gone_ = true;
  status_ = kClientGone;
  cause_ = cause;
  cancel_all();
  services_.metrics.responses().count(input_.route, status_);
}

void Answer::abort() {
  if (over()) return;
  aborted_ = true;
  cause_ = CancelCause::kAbortRequest;
  cancel_all();
}

void Answer::cancel_all() {
  if (outstanding_ == 0) return;
  for (const Choice& choice : choices_) {
    if (!choice.finished()) services_.generator.cancel(choice.id());
  }
}

void Answer::on_finish(Choice& choice, const wire::FinishEvent& event) {
  choice.end(event);
  // The answer first: flushing the pipeline may still find a stop string.
  if (!over()) {
    if (choice.succeeded(aborted_)) {
      complete(choice);
    } else {
      const bool cancelled = event.reason == wire::FinishReason::kCancelled;
      fail(from_finish(event), cancelled ? std::optional(CancelCause::kShutdown) : std::nullopt);
    }
  }
  record(choice);
  if (--outstanding_ == 0 && input_.on_end) input_.on_end();
}

void Answer::complete(Choice& choice) {
  std::string out;
  begin(choice, out);
  if (over()) return;
  take(choice, choice.flush(), out);
  const bool last = ++complete_ == choices_.size();
  if (!input_.plan.stream) {
    if (last) send_whole();
    return;
  }
  out += http::sse_event(input_.format->finish_chunk(choice.view(), choice.outcome(),
                                                     choice.usage(), running_usage()));
  if (!last) return write(std::move(out));
  answered_ = true;
  services_.metrics.responses().count(input_.route, 200);
  if (input_.plan.include_usage) out += http::sse_event(input_.format->usage_chunk(usage()));
  out += http::sse_event(kDone);
  input_.writer->write(std::move(out));
  input_.writer->finish();
}

void Answer::send_whole() {
  answered_ = true;
  services_.metrics.responses().count(input_.route, 200);
  std::vector<WholeChoice> all;
  all.reserve(choices_.size());
  for (Choice& choice : choices_) all.push_back({&choice.view(), &choice.all(), choice.outcome()});
  http::Response response;
  response.headers.push_back({"x-request-id", input_.request_id});
  response.headers.push_back(processing_header(services_.clock.now() - input_.arrived));
  response.headers.push_back(server_timing_header(choices_.front().finish()));
  add_integrity_header(response);
  response.body = input_.format->whole(all, usage());
  input_.writer->send(std::move(response));
}

void Answer::record(const Choice& choice) const {
  const std::string_view reason = choice.recorded_reason();
  const wire::FinishEvent& event = choice.finish();
  const base::Nanoseconds since_arrival = services_.clock.now() - input_.arrived;
  Usage figures = choice.usage();
  log_ended(services_.logger,
            {input_.request_id, input_.route, status_, reason, figures, since_arrival}, event);
  // A prompt counts once, as in `usage`, whatever the number of its choices.
  if (!choice.leader()) figures.prompt_tokens = figures.cached_tokens = 0;
  services_.metrics.finished(reason, event, figures, since_arrival, choice.max_tokens());
  services_.metrics.calls(choice.calls());
  if (reason == "deadline") services_.metrics.cancelled(CancelCause::kDeadline);
  if (reason == "abort" && cause_) services_.metrics.cancelled(*cause_);
}

void Answer::fail(const ApiError& error, std::optional<CancelCause> cause) {
  if (over()) return;
  answered_ = true;
  status_ = error.status;
  cause_ = cause;
  cancel_all();
  services_.metrics.responses().count(input_.route, error.status);
  if (!streaming_) {
    http::Response response = error_response(error, input_.request_id);
    response.headers.push_back({"x-request-id", input_.request_id});
    add_integrity_header(response);
    input_.writer->send(std::move(response));
    return;
  }
  input_.writer->write(http::sse_event(error_body(error, input_.request_id)));
  input_.writer->finish();
}

RunningUsage Answer::running_usage() const {
  return input_.plan.continuous_usage ? RunningUsage(usage()) : std::nullopt;
}

// A prompt counts once, however many choices it has.
Usage Answer::usage() const {
  Usage sum;
  for (const Choice& choice : choices_) {
    const Usage own = choice.usage();
    sum.completion_tokens += own.completion_tokens;
    sum.reasoning_tokens += own.reasoning_tokens;
    if (!choice.leader()) continue;
    sum.prompt_tokens += own.prompt_tokens;
    sum.cached_tokens += own.cached_tokens;
  }
  if (const Choice& first = choices_.front(); first.finished()) {
    sum.prefill_ms = 1e3 * base::to_seconds(first.finish().prefill_time);
    sum.decode_ms = 1e3 * base::to_seconds(first.finish().decode_time);
  }
  return sum;
}

}  // namespace bulkhead::api
