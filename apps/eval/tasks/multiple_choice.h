// Which choice is the likeliest, as lm-eval counts it.
//
// Threads: pure functions. Invariant: of equal scores the first wins, as numpy.argmax has it; a
// score that is not there loses against every one that is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/eval/question.h"

namespace bulkhead::apps::eval {

// The likeliest; with `texts`, the likeliest for each character of its text. `scores` is not empty.
size_t best_choice(const std::vector<std::optional<double>>& scores);
size_t best_choice(const std::vector<std::optional<double>>& scores,
                   const std::vector<std::string>& texts);

// A question whose answer is a letter, and one whose answer is a text: these count acc and
// acc_norm. `choices` are without the blank that stands before them.
Question letter_question(std::string id, std::string group, std::string context,
                         const std::vector<std::string>& choices, size_t right);
Question text_question(std::string id, std::string context, const std::vector<std::string>& choices,
                       size_t right);

}  // namespace bulkhead::apps::eval
