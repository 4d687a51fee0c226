#include "apps/eval/tasks/multiple_choice.h"

#include <algorithm>
#include <limits>

#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

ChoicesAsk ask_of(std::string context, const std::vector<std::string>& choices) {
  ChoicesAsk ask;
  ask.context = std::move(context);
  ask.choices.reserve(choices.size());
  for (const std::string& choice : choices) ask.choices.push_back(" " + choice);
  return ask;
}

double share(bool right) { return right ? 1.0 : 0.0; }

}  // namespace

size_t best_choice(const std::vector<std::optional<double>>& scores) {
  size_t best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!scores[i] || *scores[i] <= most) continue;
    best = i;
    most = *scores[i];
  }
  return best;
}

size_t best_choice(const std::vector<std::optional<double>>& scores,
                   const std::vector<std::string>& texts) {
  std::vector<std::optional<double>> each = scores;
  for (size_t i = 0; i < each.size(); ++i) {
    const uint64_t length = std::max<uint64_t>(1, characters(texts[i]));
    if (each[i]) *each[i] /= static_cast<double>(length);
  }
  return best_choice(each);
}

Question letter_question(std::string id, std::string group, std::string context,
                         const std::vector<std::string>& choices, size_t right) {
  ChoicesAsk ask = ask_of(std::move(context), choices);
  ask.letters = true;
  return {std::move(id), std::move(group), std::move(ask), choices[right],
          [choices, right](const Reply& reply) {
            const size_t best = best_choice(reply.scores);
            return Verdict{choices[best], {{"acc", share(best == right)}}};
          }};
}

Question text_question(std::string id, std::string context, const std::vector<std::string>& choices,
                       size_t right) {
  return {std::move(id), "", ask_of(std::move(context), choices), choices[right],
          [choices, right](const Reply& reply) {
            const size_t best = best_choice(reply.scores);
            const size_t best_norm = best_choice(reply.scores, choices);
            return Verdict{
                choices[best],
                {{"acc", share(best == right)}, {"acc_norm", share(best_norm == right)}}};
          }};
}

}  // namespace bulkhead::apps::eval
