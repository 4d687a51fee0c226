#include "apps/drill/answer.h"

#include "apps/drill/json_members.h"

namespace bulkhead::apps {
namespace {

namespace json = boost::json;

constexpr size_t kHeadBytesMax = 64 << 10;

void take_error(const json::value* error, Answer& answer) {
  answer.error_code = text_of(member(error, "code"));
  answer.error_text = text_of(member(error, "message"));
  answer.retriable = is_true(member(error, "retriable"));
  if (answer.error_code.empty()) answer.error_code = "without a code";
}

// The tokens of a chunk, one text for each.
void take_choice(const json::value& choice, Answer& answer) {
  const json::value* scores = member(&choice, "logprobs");
  const json::array& tokens = elements_of(member(scores, "tokens"));
  const json::array& own = elements_of(member(scores, "token_logprobs"));
  const json::array& top = elements_of(member(scores, "top_logprobs"));
  for (size_t i = 0; i < tokens.size(); ++i) {
    json::array one = {tokens[i]};
    if (i < own.size()) one.push_back(own[i]);
    if (i < top.size()) one.push_back(top[i]);
    answer.tokens.push_back(json::serialize(one));
  }
  const std::string text = text_of(member(&choice, "text"));
  if (tokens.empty() && !text.empty()) answer.tokens.push_back(text);
  const std::string reason = text_of(member(&choice, "finish_reason"));
  if (!reason.empty()) answer.finish_reason = reason;
}

}  // namespace

void AnswerReader::piece(std::string_view bytes) {
  if (head_.size() < kHeadBytesMax) head_ += bytes.substr(0, kHeadBytesMax - head_.size());
  for (const std::string& data : parser_.push(bytes)) take_event(data);
}

void AnswerReader::take_event(const std::string& data) {
  if (has_error_) answer_.went_on = true;
  if (data == "[DONE]") {
    answer_.done = true;
    return;
  }
  boost::system::error_code bad;
  const json::value event = json::parse(data, bad);
  if (bad || !event.is_object()) {
    answer_.failure = "an event is not a JSON object";
    return;
  }
  if (const json::value* error = member(&event, "error"); error != nullptr && !error->is_null()) {
    has_error_ = true;
    take_error(error, answer_);
    return;
  }
  for (const json::value& choice : elements_of(member(&event, "choices"))) {
    take_choice(choice, answer_);
  }
}

Answer AnswerReader::finish(const base::Result<http::ClientResponse>& result) {
  if (!result.ok()) {
    answer_.failure = result.error().message;
    return std::move(answer_);
  }
  answer_.status = result->status;
  if (result->status == 200) return std::move(answer_);
  boost::system::error_code bad;
  const json::value body = json::parse(head_, bad);
  take_error(bad ? nullptr : member(&body, "error"), answer_);
  return std::move(answer_);
}

}  // namespace bulkhead::apps
