#include "api/answer/generation.h"

#include <algorithm>
#include <utility>

#include "http/sse.h"

namespace bulkhead::api {
namespace {

constexpr std::string_view kDone = "[DONE]";

ApiError backlog_overflow() {
  return ApiError{503,
                  "overloaded_error",
                  "capacity_exceeded",
                  "the server could not keep up with this answer; try again",
                  {},
                  true};
}

}  // namespace

Generation::Generation(const GenerationServices& services, GenerationInput input)
    : services_(services),
      input_(std::move(input)),
      pipeline_(services.tokenizer, input_.plan.output) {}

void Generation::start() {
  wire::GenerateRequest plan = std::move(input_.plan.request);
  prompt_tokens_ = static_cast<int32_t>(plan.prompt.size());
  max_tokens_ = plan.max_tokens;
  id_ = services_.generator.next_id();
  plan.id = id_;
  input_.writer->on_abort([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->on_gone();
  });
  if (gone_) return;
  auto mailbox = std::make_shared<EventMailbox>(
      services_.post, services_.clock, services_.backlog_events_max,
      [self = shared_from_this()](EventBatch& batch) { self->on_events(batch); });
  if (auto status = services_.generator.submit(std::move(plan), std::move(mailbox)); !status) {
    fail(from_submit(status.error()));
  }
}

void Generation::on_events(EventBatch& batch) {
  std::string out;
  for (TimedToken& token : batch.tokens) on_token(std::move(token), out);
  if (!out.empty()) write(std::move(out));
  if (batch.overflowed && !answered_) {
    services_.generator.cancel(id_);
    fail(backlog_overflow());
  }
  if (batch.finish) on_finish(*batch.finish);
}

void Generation::on_token(TimedToken token, std::string& out) {
  if (any_token_) {
    services_.metrics.next_token(token.at - previous_token_);
  } else {
    services_.metrics.first_token(token.at - input_.arrived);
  }
  any_token_ = true;
  previous_token_ = token.at;
  if (answered_ || gone_ || pipeline_.stopped()) return;
  if (input_.plan.stream) begin_stream(out);
  take(pipeline_.push(std::move(token.event)), out);
  if (pipeline_.stopped()) services_.generator.cancel(id_);
}

void Generation::begin_stream(std::string& out) {
  if (std::exchange(streaming_, true)) return;
  http::Response head;
  head.content_type = "text/event-stream";
  head.headers.push_back({"x-request-id", input_.request_id});
  head.headers.push_back({"Cache-Control", "no-store"});
  head.headers.push_back({"X-Accel-Buffering", "no"});  // proxies must not collect events
  input_.writer->start_stream(std::move(head));
  const std::string opening = input_.format->opening_chunk(running_usage());
  if (!opening.empty()) out += http::sse_event(opening);
}

void Generation::take(Piece piece, std::string& out) {
  if (piece.empty()) return;
  if (input_.plan.stream) {
    out += http::sse_event(input_.format->piece_chunk(piece, running_usage()));
    return;
  }
  all_.text += piece.text;
  all_.tokens.insert(all_.tokens.end(), std::make_move_iterator(piece.tokens.begin()),
                     std::make_move_iterator(piece.tokens.end()));
}

void Generation::write(std::string out) {
  if (gone_ || input_.writer->write(std::move(out))) return;
  on_gone();
}

void Generation::on_gone() {
  if (answered_ || gone_) return;
  gone_ = true;
  services_.generator.cancel(id_);
  services_.metrics.count_response(input_.route, 499);
}

void Generation::on_finish(const wire::FinishEvent& event) {
  // The answer first: flushing the pipeline may still find a stop string.
  if (!answered_ && !gone_) {
    if (succeeded(event)) {
      succeed(event);
    } else {
      fail(from_finish(event));
    }
  }
  record(event);
}

bool Generation::succeeded(const wire::FinishEvent& event) const {
  return pipeline_.stopped() || event.reason == wire::FinishReason::kStop ||
         event.reason == wire::FinishReason::kLength;
}

void Generation::succeed(const wire::FinishEvent& event) {
  std::string out;
  if (input_.plan.stream) begin_stream(out);
  take(pipeline_.finish(), out);
  answered_ = true;
  services_.metrics.count_response(input_.route, 200);
  if (!input_.plan.stream) {
    http::Response response;
    response.headers.push_back({"x-request-id", input_.request_id});
    response.body = input_.format->whole(all_, outcome(event), usage(event));
    input_.writer->send(std::move(response));
    return;
  }
  const RunningUsage running =
      input_.plan.continuous_usage ? RunningUsage(usage(event)) : std::nullopt;
  out += http::sse_event(input_.format->finish_chunk(outcome(event), running));
  if (input_.plan.include_usage) {
    out += http::sse_event(input_.format->usage_chunk(usage(event)));
  }
  out += http::sse_event(kDone);
  input_.writer->write(std::move(out));
  input_.writer->finish();
}

void Generation::fail(const ApiError& error) {
  if (answered_ || gone_) return;
  answered_ = true;
  services_.metrics.count_response(input_.route, error.status);
  if (!streaming_) {
    http::Response response = error_response(error, input_.request_id);
    response.headers.push_back({"x-request-id", input_.request_id});
    input_.writer->send(std::move(response));
    return;
  }
  input_.writer->write(http::sse_event(error_body(error, input_.request_id)));
  input_.writer->finish();
}

void Generation::record(const wire::FinishEvent& event) {
  std::string_view reason = "abort";
  if (pipeline_.stopped()) {
    reason = "stop";
  } else if (event.reason == wire::FinishReason::kStop ||
             event.reason == wire::FinishReason::kLength ||
             event.reason == wire::FinishReason::kDeadline ||
             event.reason == wire::FinishReason::kError) {
    reason = wire::to_string(event.reason);
  }
  const Usage figures = usage(event);
  services_.metrics.finished(reason, event, figures, services_.clock.now() - input_.arrived,
                             max_tokens_);
  services_.logger.info("generation ended",
                        {{"request_id", input_.request_id},
                         {"reason", std::string(reason)},
                         {"prompt_tokens", int64_t{figures.prompt_tokens}},
                         {"cached_tokens", int64_t{figures.cached_tokens}},
                         {"completion_tokens", int64_t{figures.completion_tokens}}});
  if (event.error) {
    services_.logger.warning("generation failed",
                             {{"request_id", input_.request_id}, {"error", event.error->message}});
  }
}

RunningUsage Generation::running_usage() const {
  if (!input_.plan.continuous_usage) return std::nullopt;
  return Usage{prompt_tokens_, 0, pipeline_.completion_tokens()};
}

Usage Generation::usage(const wire::FinishEvent& event) const {
  // After a stop string the generator may have made some tokens more than the answer holds.
  const int32_t completion =
      pipeline_.stopped() ? pipeline_.completion_tokens() : event.completion_tokens;
  return Usage{event.prompt_tokens, std::min(event.cached_tokens, event.prompt_tokens), completion};
}

Outcome Generation::outcome(const wire::FinishEvent& event) const {
  Outcome out;
  if (const std::string* stop = pipeline_.matched_stop()) {
    out.finish_reason = "stop";
    out.stop_string = *stop;
    return out;
  }
  out.finish_reason = wire::to_string(event.reason);
  const auto& eos = services_.eos_ids;
  if (event.reason == wire::FinishReason::kStop && event.stop_id >= 0 &&
      std::find(eos.begin(), eos.end(), event.stop_id) == eos.end()) {
    out.stop_token_id = event.stop_id;
  }
  return out;
}

}  // namespace bulkhead::api
