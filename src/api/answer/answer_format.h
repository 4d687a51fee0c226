// The JSON of answers: one format per endpoint, each able to say the same answer as chunks or
// whole.
//
// Threads: the I/O thread; one format per request. Invariants: all chunks of an answer share id,
// created and model; joining the chunks' text gives the whole answer's text, choice by choice;
// log-probabilities are finite numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/answer/output_pipeline.h"
#include "api/api.h"
#include "base/json_writer.h"
#include "text/tokenizer.h"
#include "wire/types.h"

namespace bulkhead::api {

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t reasoning_tokens = 0;  // of the completion's
  // Of the first choice, in milliseconds, once it has ended.
  double prefill_ms = 0;
  double decode_ms = 0;
};

// How a choice ended.
struct Outcome {
  std::string_view finish_reason;              // "stop", "length", "tool_calls", "abort"
  std::optional<std::string> stop_string;      // the stop string that ended it
  std::optional<wire::TokenId> stop_token_id;  // the client's stop token that ended it
};

// What the chunks and choices of one answer have in common.
struct AnswerHead {
  std::string id;
  int64_t created = 0;
  std::string model;
  bool usage_in_chunks = false;  // chunks carry `usage`, null where it is not told
  bool service_tier = false;     // asked for, so it is answered
  bool token_ids = false;        // of prompts and answers
  bool token_id_names = false;   // tokens in log-probabilities are called by their ids
  ReasoningField reasoning_field = ReasoningField::kReasoningContent;
  int32_t logprobs = -1;         // -1: none; otherwise so many beside the chosen token
  int32_t prompt_logprobs = -1;  // likewise
};

// One choice as a format sees it.
struct ChoiceView {
  int32_t index = 0;
  std::span<const wire::TokenId> prompt;
  std::span<const wire::TokenEvent> prompt_scores;  // of prompt[1] and on, where asked for
  // Kept by the format from chunk to chunk.
  bool prompt_told = false;
  int64_t text_offset = 0;  // characters told so far
};

// A choice of a whole answer.
struct WholeChoice {
  ChoiceView* view = nullptr;
  const Piece* all = nullptr;
  Outcome outcome;
};

// `usage` of a chunk: told when the client wants running figures.
using RunningUsage = std::optional<Usage>;

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // A choice's chunk before its first text; empty when the endpoint has none.
  virtual std::string opening_chunk(ChoiceView& choice, const RunningUsage& usage) = 0;
  virtual std::string piece_chunk(ChoiceView& choice, const Piece& piece,
                                  const RunningUsage& usage) = 0;
  // `own`: the figures of this choice alone.
  virtual std::string finish_chunk(ChoiceView& choice, const Outcome& outcome, const Usage& own,
                                   const RunningUsage& usage) = 0;
  virtual std::string usage_chunk(const Usage& usage) = 0;
  virtual std::string whole(std::span<WholeChoice> choices, const Usage& usage) = 0;
};

// `tokenizer` must outlive the format.
std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head, const text::Tokenizer& tokenizer);
std::unique_ptr<AnswerFormat> make_completion_format(AnswerHead head,
                                                     const text::Tokenizer& tokenizer);

// Shared by the formats.
void write_usage(base::JsonWriter& json, const Usage& usage);
// The members `usage` and `timings` (llama-server's) of an answer that is complete.
void write_figures(base::JsonWriter& json, const Usage& usage);
void write_ending(base::JsonWriter& json, const Outcome* outcome);  // finish_reason, stop_reason
void write_head(base::JsonWriter& json, const AnswerHead& head, std::string_view object);
void write_running_usage(base::JsonWriter& json, const AnswerHead& head, const RunningUsage& usage);
void write_ids(base::JsonWriter& json, std::span<const wire::TokenId> ids);
// `prompt_logprobs`: null for the first token, then {id: {logprob, decoded_token}}.
void write_prompt_logprobs(base::JsonWriter& json, const AnswerHead& head, const ChoiceView& choice,
                           const text::Tokenizer& tokenizer);
// The last chunk of a stream that asked for usage: no choices.
std::string usage_only_chunk(const AnswerHead& head, std::string_view object, const Usage& usage);
// JSON has no infinity: an impossible token reads as this.
double finite_logprob(float logprob);
// "token_id:7", as return_tokens_as_token_ids asks for.
std::string token_id_name(wire::TokenId id);
// As many of the other tokens as were asked for.
std::span<const wire::TokenLogprob> top_of(const wire::TokenEvent& event, int32_t count);

}  // namespace bulkhead::api
