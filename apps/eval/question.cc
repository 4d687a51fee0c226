#include "apps/eval/question.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "wire/secrets.h"

namespace bulkhead::apps::eval {
namespace {

// Lengths go in front, so that no two lists of texts read alike.
void put(std::string& out, const std::string& text) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
}

struct AskText {
  std::string& out;

  void operator()(const GenerateAsk& ask) const {
    put(out, ask.prompt);
    put(out, std::to_string(ask.tokens_max));
    for (const std::string& stop : ask.stop) put(out, stop);
  }
  void operator()(const ChoicesAsk& ask) const {
    put(out, ask.context);
    for (const std::string& choice : ask.choices) put(out, choice);
  }
  void operator()(const RollingAsk& ask) const { put(out, ask.text); }
  void operator()(const ChatAsk& ask) const {
    put(out, ask.messages);
    put(out, ask.tools);
    put(out, std::to_string(ask.tokens_max));
  }
};

std::string digest_of(const std::string& text) {
  return wire::short_hex(
      wire::hmac_sha256("bulkhead eval", std::as_bytes(std::span(text.data(), text.size()))));
}

}  // namespace

std::string fingerprint(const Task& task) {
  std::string all;
  for (const Question& question : task.questions) {
    std::string one;
    put(one, question.id);
    put(one, question.wanted);
    std::visit(AskText{one}, question.ask);
    all += digest_of(one);
  }
  return digest_of(all);
}

void keep_some(Task& task, uint64_t limit) {
  const uint64_t total = task.questions.size();
  if (limit == 0 || limit >= total) return;
  std::vector<Question> kept;
  kept.reserve(limit);
  for (uint64_t i = 0; i < limit; ++i) {
    kept.push_back(std::move(task.questions[i * total / limit]));
  }
  task.questions = std::move(kept);
}

}  // namespace bulkhead::apps::eval
