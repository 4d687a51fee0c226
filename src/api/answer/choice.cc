#include "api/answer/choice.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace bulkhead::api {

Choice::Choice(const GenerationServices& services, const GenerationPlan& plan, int32_t index,
               PromptState& prompt, bool leader)
    : services_(services),
      prompt_(prompt),
      leader_(leader),
      echo_logprobs_(plan.echo && plan.output.logprobs),
      pipeline_(services.tokenizer, plan.output) {
  view_.index = index;
  view_.prompt = prompt.plan.ids;
}

wire::GenerateRequest Choice::request(const GenerationPlan& plan, int32_t number,
                                      wire::RequestId leader_id) {
  wire::GenerateRequest request = plan.request;
  id_ = services_.generator.next_id();
  request.id = id_;
  request.prompt = prompt_.plan.ids;
  request.max_tokens = prompt_.plan.max_tokens;
  request.sampling.seed = choice_seed(plan.request.sampling.seed, number);
  request.leader = leader_id;
  // The scores of a prompt are asked for once; but who wants no tokens must want scores.
  if (!leader_) request.prompt_logprobs = -1;
  if (request.max_tokens == 0) request.prompt_logprobs = std::max(request.prompt_logprobs, 0);
  return request;
}

bool Choice::take_scores(std::vector<wire::PromptEvent> events) {
  if (!leader_) return true;
  for (wire::PromptEvent& event : events) {
    if (event.position != static_cast<int32_t>(prompt_.scores.size()) + 1) return false;
    std::move(event.tokens.begin(), event.tokens.end(), std::back_inserter(prompt_.scores));
  }
  return prompt_.scores.size() < prompt_.plan.ids.size();
}

Piece Choice::echo() {
  Piece all;
  const auto& ids = prompt_.plan.ids;
  for (size_t i = 0; i < ids.size(); ++i) {
    wire::TokenEvent event;
    event.token = ids[i];
    if (echo_logprobs_ && i > 0) event = prompt_.scores[i - 1];
    all.append(pipeline_.echo(std::move(event), i < prompt_.plan.hidden, i > 0));
  }
  return all;
}

void Choice::observe(const TimedToken& token, base::Nanoseconds arrived) {
  if (any_token_) {
    services_.metrics.next_token(token.at - previous_token_);
  } else {
    services_.metrics.first_token(token.at - arrived);
  }
  any_token_ = true;
  previous_token_ = token.at;
}

Piece Choice::named(Piece piece) const {
  for (CallPiece& call : piece.calls) {
    if (call.begins && call.id.empty()) call.id = services_.call_id();
  }
  return piece;
}

bool Choice::succeeded(bool aborted) const {
  return stopped() || finish_->reason == wire::FinishReason::kStop ||
         finish_->reason == wire::FinishReason::kLength ||
         (aborted && finish_->reason == wire::FinishReason::kCancelled);
}

Outcome Choice::outcome() const {
  Outcome out;
  // Calls refine "stop" alone: an answer that was cut off says so.
  const CallCounts& calls = pipeline_.calls();
  const std::string_view stop = calls.complete + calls.malformed > 0 ? "tool_calls" : "stop";
  if (const std::string* text = pipeline_.matched_stop()) {
    out.finish_reason = stop;
    out.stop_string = *text;
    return out;
  }
  wire::TokenId end = -1;
  if (pipeline_.end_id() || pipeline_.has_its_call()) {
    out.finish_reason = stop;
    end = pipeline_.end_id().value_or(-1);
  } else if (finish_->reason == wire::FinishReason::kCancelled) {
    out.finish_reason = "abort";
  } else {
    const bool stopped = finish_->reason == wire::FinishReason::kStop;
    out.finish_reason = stopped ? stop : wire::to_string(finish_->reason);
    if (stopped) end = finish_->stop_id;
  }
  const auto& eos = services_.eos_ids;
  if (end >= 0 && std::find(eos.begin(), eos.end(), end) == eos.end()) out.stop_token_id = end;
  return out;
}

Usage Choice::usage() const {
  Usage out;
  out.prompt_tokens = static_cast<int32_t>(prompt_.plan.ids.size());
  // After a stop string the generator may have made some tokens more than the answer holds.
  out.completion_tokens =
      finish_ && !stopped() ? finish_->completion_tokens : pipeline_.completion_tokens();
  out.reasoning_tokens = pipeline_.reasoning_tokens();
  if (finish_) out.cached_tokens = std::min(finish_->cached_tokens, out.prompt_tokens);
  return out;
}

std::string_view Choice::recorded_reason() const {
  if (stopped()) return "stop";
  if (finish_->reason == wire::FinishReason::kCancelled) return "abort";
  return wire::to_string(finish_->reason);
}

}  // namespace bulkhead::api
