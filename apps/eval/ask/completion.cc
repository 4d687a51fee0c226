#include "apps/eval/ask/completion.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/drill/json_members.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;

constexpr size_t kCallsMax = 128;

std::optional<double> number_of(const json::value* value) {
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->to_number<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

base::Result<double> sum_of(const json::array& scores, size_t begin, size_t end) {
  double sum = 0.0;
  for (size_t i = begin; i < end; ++i) {
    const std::optional<double> score = number_of(&scores[i]);
    if (!score) {
      return base::corrupt(fmt::format("logprobs.token_logprobs[{}] is no number", i));
    }
    sum += *score;
  }
  return sum;
}

const json::array& list(const json::value& choice, std::string_view name) {
  return elements_of(member(member(&choice, "logprobs"), name));
}

}  // namespace

void add_usage(const json::value& answer, Reply& reply) {
  const json::value* usage = member(&answer, "usage");
  reply.prompt_tokens += count_of(member(usage, "prompt_tokens"));
  reply.output_tokens += count_of(member(usage, "completion_tokens"));
  reply.cached_tokens += count_of(member(member(usage, "prompt_tokens_details"), "cached_tokens"));
}

base::Result<std::vector<const json::value*>> choices_of(const json::value& answer, size_t count) {
  const json::array& given = elements_of(member(&answer, "choices"));
  std::vector<const json::value*> ordered(count, nullptr);
  for (const json::value& choice : given) {
    const json::value* index = member(&choice, "index");
    // A server with one choice may leave its number out.
    const uint64_t at = index == nullptr && count == 1 ? 0 : count_of(index);
    if (at < count && choice.is_object()) ordered[at] = &choice;
  }
  for (size_t i = 0; i < count; ++i) {
    if (ordered[i] == nullptr) {
      return base::corrupt(fmt::format("the answer has no choice {} of {}", i, count));
    }
  }
  return ordered;
}

base::Result<double> echoed_score(const json::value& choice, size_t begin, size_t end) {
  const json::array& scores = list(choice, "token_logprobs");
  if (scores.size() < end) {
    return base::corrupt(
        fmt::format("logprobs.token_logprobs has {} entries for a prompt of {} tokens; the server "
                    "must know echo with logprobs",
                    scores.size(), end));
  }
  return sum_of(scores, begin, end);
}

base::Result<double> echoed_text_score(const json::value& choice, uint64_t begin,
                                       const std::string& continuation) {
  const json::array& scores = list(choice, "token_logprobs");
  const json::array& tokens = list(choice, "tokens");
  const json::array& offsets = list(choice, "text_offset");
  if (scores.empty() || tokens.size() != scores.size() || offsets.size() != scores.size()) {
    return base::corrupt(
        "logprobs needs tokens, token_logprobs and text_offset of one length; the "
        "server must know echo with logprobs");
  }
  const uint64_t end = begin + characters(continuation);
  std::string spelled;
  size_t first = scores.size(), last = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const uint64_t offset = count_of(&offsets[i]);
    if (offset < begin || offset >= end) continue;
    first = std::min(first, i);
    last = i + 1;
    spelled += text_of(&tokens[i]);
  }
  if (spelled != continuation) {
    return base::unsupported(
        fmt::format("no token begins where '{}' does (its tokens read '{}'): this server needs "
                    "/tokenize to be measured",
                    continuation, spelled));
  }
  return sum_of(scores, first, last);
}

std::optional<double> top_score(const json::value& choice, std::optional<int64_t> id,
                                const std::string& text) {
  const json::array& tops = list(choice, "top_logprobs");
  if (tops.empty()) return std::nullopt;
  if (id) {
    const json::value* by_id = member(&tops[0], fmt::format("token_id:{}", *id));
    if (by_id != nullptr) return number_of(by_id);
  }
  return number_of(member(&tops[0], text));
}

base::Result<std::string> completion_text(const json::value& choice) {
  const json::value* text = member(&choice, "text");
  if (text == nullptr || !text->is_string()) return base::corrupt("choices[].text is no text");
  return std::string(text->as_string());
}

base::Status read_message(const json::value& choice, Reply& reply) {
  const json::value* message = member(&choice, "message");
  if (message == nullptr || !message->is_object()) {
    return base::corrupt("choices[].message is no object");
  }
  reply.text = text_of(member(message, "content"));
  const json::array& calls = elements_of(member(message, "tool_calls"));
  if (calls.size() > kCallsMax) {
    return base::corrupt(fmt::format("choices[].message.tool_calls has {} entries, more than {}",
                                     calls.size(), kCallsMax));
  }
  reply.calls.reserve(calls.size());
  for (const json::value& call : calls) {
    const json::value* function = member(&call, "function");
    reply.calls.push_back(
        {text_of(member(function, "name")), text_of(member(function, "arguments"))});
  }
  return {};
}

}  // namespace bulkhead::apps::eval
