// The JSON of answers: one format per endpoint, each able to say the same answer as chunks or
// whole.
//
// Threads: the I/O thread; one format per request. Invariants: all chunks of an answer share id,
// created and model; joining the chunks' text gives the whole answer's text; log-probabilities are
// finite numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer/output_pipeline.h"
#include "base/json_writer.h"
#include "text/tokenizer.h"
#include "wire/types.h"

namespace bulkhead::api {

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t completion_tokens = 0;
};

// How an answer ended.
struct Outcome {
  std::string_view finish_reason;              // "stop", "length"
  std::optional<std::string> stop_string;      // the stop string that ended it
  std::optional<wire::TokenId> stop_token_id;  // the client's stop token that ended it
};

struct AnswerHead {
  std::string id;
  int64_t created = 0;
  std::string model;
  bool usage_in_chunks = false;  // chunks carry `usage`, null where it is not told
  bool logprobs = false;
};

// `usage` of a chunk: told when the client wants running figures.
using RunningUsage = std::optional<Usage>;

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // The chunk before the first text; empty when the endpoint has none.
  virtual std::string opening_chunk(const RunningUsage& usage) = 0;
  virtual std::string piece_chunk(const Piece& piece, const RunningUsage& usage) = 0;
  virtual std::string finish_chunk(const Outcome& outcome, const RunningUsage& usage) = 0;
  virtual std::string usage_chunk(const Usage& usage) = 0;
  virtual std::string whole(const Piece& all, const Outcome& outcome, const Usage& usage) = 0;
};

// `tokenizer` must outlive the format.
std::unique_ptr<AnswerFormat> make_chat_format(AnswerHead head, const text::Tokenizer& tokenizer);
std::unique_ptr<AnswerFormat> make_completion_format(AnswerHead head,
                                                     const text::Tokenizer& tokenizer);

// Shared by the formats.
void write_usage(base::JsonWriter& json, const Usage& usage);
void write_ending(base::JsonWriter& json, const Outcome* outcome);  // finish_reason, stop_reason
void write_head(base::JsonWriter& json, const AnswerHead& head, std::string_view object);
void write_running_usage(base::JsonWriter& json, const AnswerHead& head, const RunningUsage& usage);
// The last chunk of a stream that asked for usage: no choices.
std::string usage_only_chunk(const AnswerHead& head, std::string_view object, const Usage& usage);
// JSON has no infinity: an impossible token reads as this.
double finite_logprob(float logprob);

}  // namespace bulkhead::api
