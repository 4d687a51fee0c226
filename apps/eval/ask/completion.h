// What is read from the answers of /v1/completions and /v1/chat/completions.
//
// Threads: pure functions. Invariant: an answer that lacks what is read, or contradicts the
// request, is kCorruptData and says where.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/eval/question.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

// Adds an answer's `usage`, where it has one.
void add_usage(const boost::json::value& answer, Reply& reply);

// The choices in the order of the prompts; exactly `count`, each an object.
base::Result<std::vector<const boost::json::value*>> choices_of(const boost::json::value& answer,
                                                                size_t count);

// Sum of the log-probabilities of tokens begin..end of an echoed prompt, whose end is its end.
base::Result<double> echoed_score(const boost::json::value& choice, size_t begin, size_t end);

// Of the tokens that spell `continuation`, from character `begin` of an echoed text on. Errors:
// also kUnsupported where no token begins there.
base::Result<double> echoed_text_score(const boost::json::value& choice, uint64_t begin,
                                       const std::string& continuation);

// Log-probability of a token among the most probable of the first position: by its id, in the
// spelling "token_id:5", or by its text.
std::optional<double> top_score(const boost::json::value& choice, std::optional<int64_t> id,
                                const std::string& text);

base::Result<std::string> completion_text(const boost::json::value& choice);
// Text and calls of a chat's message.
base::Status read_message(const boost::json::value& choice, Reply& reply);

}  // namespace bulkhead::apps::eval
