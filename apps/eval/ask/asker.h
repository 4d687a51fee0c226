// Asks a server one question of a benchmark, in whatever requests that takes.
//
// Threads: one asker a thread; they share what was found out about the server, which is constant.
// Invariants: where the server has /tokenize, prompts are token ids, without the tokenizer's prefix
// and cut at the left to fit, and a choice's tokens are those of context and choice together behind
// those of the context: all as lm-eval has it. Otherwise prompts are texts, which a server may give
// a prefix and refuse for their length.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/eval/ask/server.h"
#include "apps/eval/question.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

using TokenIds = std::vector<int64_t>;

// What is found out before the first question.
struct ServerFacts {
  std::string model;
  bool tokenizes = false;         // has /tokenize
  int64_t length_max = 2048;      // tokens of prompt and answer together
  int64_t top_max = 0;            // most probable tokens that /v1/completions tells; 0: not asked
  std::optional<int64_t> prefix;  // the token that stands before a whole text
};

struct FactsWanted {
  std::string model;       // empty: the first listed
  int64_t length_max = 0;  // 0: what the server says
  bool completions = false;
  bool prefix = false;
};

// A text's tokens, without the tokenizer's prefix, by /tokenize.
base::Result<TokenIds> tokenize(Server& server, const std::string& model, const std::string& text);

// Errors: as Server's, and kNotFound for a model that is not listed.
base::Result<ServerFacts> look_at(Server& server, const FactsWanted& wanted);

// One window of a text: its tokens begin..end are scored after the tokens from context_begin on;
// the prefix stands before the first.
struct Window {
  int64_t context_begin = 0, begin = 0, end = 0;
};
// lm-eval's: disjoint windows of `length` tokens, each behind one token of context; the last is
// filled up to the left with more of it.
std::vector<Window> rolling_windows(int64_t tokens, int64_t length);

class Asker {
 public:
  // `slow_choices`: every choice gets a prompt of its own, also where one answer tells all.
  Asker(Server server, ServerFacts facts, bool slow_choices)
      : server_(std::move(server)), facts_(std::move(facts)), slow_choices_(slow_choices) {}

  base::Result<Reply> ask(const Ask& ask);

 private:
  base::Result<Reply> generate(const GenerateAsk& ask);
  base::Result<Reply> choices(const ChoicesAsk& ask);
  base::Result<Reply> rolling(const RollingAsk& ask);
  base::Result<Reply> chat(const ChatAsk& ask);

  base::Result<TokenIds> tokenize(const std::string& text) {
    return eval::tokenize(server_, facts_.model, text);
  }
  base::Result<boost::json::value> complete(boost::json::object body, Reply& reply);
  base::Result<boost::json::value> echoed(boost::json::value prompt, Reply& reply);
  // The ids of the choices, where each is one token behind this context.
  base::Result<std::optional<TokenIds>> single_tokens(const ChoicesAsk& ask,
                                                      const TokenIds& context);
  base::Result<bool> choices_at_once(const ChoicesAsk& ask, const TokenIds& context, Reply& reply);
  base::Status choices_by_ids(const ChoicesAsk& ask, const TokenIds& context, Reply& reply);
  base::Status choices_by_text(const ChoicesAsk& ask, Reply& reply);

  Server server_;
  const ServerFacts facts_;
  const bool slow_choices_;
  std::map<std::string, std::optional<TokenIds>> single_;  // by the end of the context
};

}  // namespace bulkhead::apps::eval
