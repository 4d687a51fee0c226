// One streamed answer to one request of the drill, down to the bits of its log-probabilities.
//
// Threads: one thread. Invariant: every event that came is accounted for: what follows an error is
// seen, and so is a stream that just ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/client.h"
#include "http/sse.h"

namespace bulkhead::apps {

struct Answer {
  std::vector<std::string> tokens;  // each with its log-probabilities, as JSON
  std::string finish_reason;
  bool done = false;     // [DONE] came
  bool went_on = false;  // something came after an error
  int status = 0;
  std::string error_code;  // of a refusal, or of an event
  std::string error_text;
  bool retriable = false;
  std::string failure;  // why there is no answer of the server at all
};

class AnswerReader {
 public:
  void piece(std::string_view bytes);
  // Something of the answer came.
  bool begun() const { return !answer_.tokens.empty() || answer_.done || has_error_; }
  Answer finish(const base::Result<http::ClientResponse>& result);

 private:
  void take_event(const std::string& data);

  http::SseParser parser_;
  std::string head_;  // of the body, where it is no stream
  bool has_error_ = false;
  Answer answer_;
};

}  // namespace bulkhead::apps
