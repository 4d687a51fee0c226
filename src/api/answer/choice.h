// One choice of an answer: one generation, from its events to text, figures and an outcome.
//
// Threads: the I/O thread only (events reach it through an EventMailbox).
// Invariants: what it gives out is in the order of its events; nothing here writes to a client.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer/answer_format.h"
#include "api/answer/event_mailbox.h"
#include "api/answer/output_pipeline.h"
#include "api/api_metrics.h"
#include "api/request/generation_plan.h"
#include "base/log.h"
#include "wire/generate.h"

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
  wire::ConstraintCompiler* constraints = nullptr;  // null: no answer can be constrained
  std::function<std::string()> call_id;             // a new one, for a call whose model gives none
  const wire::IntegrityPort* integrity = nullptr;   // null: of other processes
};

// A prompt of the answer and what its choices have in common.
struct PromptState {
  PromptPlan plan;
  std::vector<wire::TokenEvent> scores;  // of plan.ids[1] and on, as they come

  bool scored() const { return scores.size() + 1 == plan.ids.size(); }
};

class Choice {
 public:
  // `prompt` must outlive the choice. A leader is the first choice of its prompt: the prompt's
  // scores come with its events, and the prompt counts among its figures.
  Choice(const GenerationServices& services, const GenerationPlan& plan, int32_t index,
         PromptState& prompt, bool leader);

  int32_t index() const { return view_.index; }
  wire::RequestId id() const { return id_; }
  bool leader() const { return leader_; }
  int32_t max_tokens() const { return prompt_.plan.max_tokens; }
  bool finished() const { return finish_.has_value(); }
  // A stop string, an end token or the one call was found: the generation need not go on.
  bool stopped() const { return pipeline_.stopped(); }
  ChoiceView& view() { return view_; }
  Piece& all() { return all_; }

  // The request to submit, under a new id. `leader_id` 0: none.
  wire::GenerateRequest request(const GenerationPlan& plan, int32_t number,
                                wire::RequestId leader_id);

  // False when the events contradict each other.
  bool take_scores(std::vector<wire::PromptEvent> events);
  // The prompt as the beginning of the answer.
  Piece echo();
  void observe(const TimedToken& token, base::Nanoseconds arrived);
  Piece push(wire::TokenEvent event) { return named(pipeline_.push(std::move(event))); }
  Piece flush() { return named(pipeline_.finish()); }
  void end(const wire::FinishEvent& event) { finish_ = event; }

  Usage usage() const;
  // Everything below needs the end.
  const wire::FinishEvent& finish() const { return *finish_; }
  // `aborted`: somebody asked for its end, so that being cancelled is no failure.
  bool succeeded(bool aborted) const;
  Outcome outcome() const;
  // One of kFinishedReasons.
  std::string_view recorded_reason() const;
  const CallCounts& calls() const { return pipeline_.calls(); }

 private:
  // With an id for every call.
  Piece named(Piece piece) const;

  const GenerationServices& services_;
  PromptState& prompt_;
  const bool leader_;
  const bool echo_logprobs_;
  OutputPipeline pipeline_;
  ChoiceView view_;
  Piece all_;  // the whole choice, when it is not streamed
  wire::RequestId id_ = 0;
  base::Nanoseconds previous_token_{0};
  bool any_token_ = false;
  std::optional<wire::FinishEvent> finish_;
};

}  // namespace bulkhead::api
