#include "apps/eval/ask/asker.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/drill/json_members.h"
#include "apps/eval/ask/completion.h"
#include "apps/eval/text_tools.h"
#include "base/json_writer.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;

constexpr int64_t kTopWished = 20;  // what vLLM, SGLang and Bulkhead allow
constexpr int64_t kTopOpenAi = 5;
constexpr int64_t kRollingMax = 2048;  // lm-eval's max_length
constexpr size_t kContextTail = 64;
constexpr size_t kContextEndsMax = 256;
constexpr int64_t kTokensMax = int64_t{1} << 24;

json::array json_ids(const TokenIds& ids) { return json::array(ids.begin(), ids.end()); }

// Keeps the end of a prompt that is too long, as lm-eval does.
void cut_left(TokenIds& ids, int64_t length_max, Reply& reply) {
  const auto most = static_cast<size_t>(std::max<int64_t>(1, length_max));
  if (ids.size() <= most) return;
  ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(most));
  reply.truncated = true;
}

base::Result<TokenIds> ids_of(const json::value& answer) {
  const json::value* tokens = member(&answer, "tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    return base::corrupt("/tokenize answered without tokens");
  }
  TokenIds ids;
  ids.reserve(tokens->as_array().size());
  for (const json::value& token : tokens->as_array()) {
    if (!token.is_int64() || token.as_int64() < 0 || token.as_int64() > kTokensMax) {
      return base::corrupt("/tokenize answered a token that is no id");
    }
    ids.push_back(token.as_int64());
  }
  return ids;
}

std::string tokenize_body(const std::string& model, const std::string& text) {
  return json::serialize(
      json::object{{"model", model}, {"prompt", text}, {"add_special_tokens", false}});
}

base::Status find_model(Server& server, const FactsWanted& wanted, ServerFacts& facts) {
  BH_ASSIGN(const json::value models, server.get("/v1/models"));
  for (const json::value& entry : elements_of(member(&models, "data"))) {
    const std::string id = text_of(member(&entry, "id"));
    if (id.empty() || (!wanted.model.empty() && id != wanted.model)) continue;
    facts.model = id;
    const uint64_t length = count_of(member(&entry, "max_model_len"));
    if (length > 1) facts.length_max = static_cast<int64_t>(std::min<uint64_t>(length, 1u << 24));
    break;
  }
  if (facts.model.empty()) {
    return base::Error{base::ErrorCode::kNotFound,
                       wanted.model.empty() ? std::string("the server lists no model")
                                            : "the server lists no model '" + wanted.model +
                                                  "'; --model takes one that it has",
                       "--model"};
  }
  if (wanted.length_max > 0) facts.length_max = std::min(wanted.length_max, facts.length_max);
  return {};
}

// A server without the route refuses (404, 405); anything else that goes wrong is told.
base::Status find_tokenizer(Server& server, ServerFacts& facts) {
  const base::Result<json::value> answer =
      server.post("/tokenize", tokenize_body(facts.model, "test"));
  if (answer.ok()) {
    facts.tokenizes = ids_of(*answer).ok();
  } else if (answer.error().code != base::ErrorCode::kInvalidArgument) {
    return answer.error();
  }
  return {};
}

// BOS, else the end token, as lm-eval has it.
base::Status find_prefix(Server& server, ServerFacts& facts) {
  BH_ASSIGN(const json::value info, server.get("/tokenizer_info"));
  std::string token = text_of(member(&info, "bos_token"));
  if (token.empty()) token = text_of(member(&info, "eos_token"));
  BH_ASSIGN(const TokenIds ids, tokenize(server, facts.model, token));
  if (ids.size() != 1) {
    return base::corrupt("/tokenizer_info names no single token as bos_token or eos_token");
  }
  facts.prefix = ids[0];
  return {};
}

base::Status find_top(Server& server, ServerFacts& facts) {
  for (const int64_t top : {kTopWished, kTopOpenAi}) {
    const base::Result<json::value> answer =
        server.post("/v1/completions", json::serialize(json::object{{"model", facts.model},
                                                                    {"prompt", "A"},
                                                                    {"max_tokens", 1},
                                                                    {"temperature", 0},
                                                                    {"logprobs", top}}));
    if (answer.ok()) {
      facts.top_max = top;
      return {};
    }
    if (top == kTopOpenAi || answer.error().code != base::ErrorCode::kInvalidArgument) {
      return answer.error();
    }
  }
  return {};
}

}  // namespace

base::Result<TokenIds> tokenize(Server& server, const std::string& model, const std::string& text) {
  BH_ASSIGN(const json::value answer, server.post("/tokenize", tokenize_body(model, text)));
  return ids_of(answer);
}

base::Result<ServerFacts> look_at(Server& server, const FactsWanted& wanted) {
  ServerFacts facts;
  BH_TRY(find_model(server, wanted, facts));
  if (!wanted.completions) return facts;
  BH_TRY(find_tokenizer(server, facts));
  BH_TRY(find_top(server, facts));
  if (!wanted.prefix) return facts;
  if (!facts.tokenizes) {
    return base::unsupported("perplexity needs a server with /tokenize and /tokenizer_info");
  }
  BH_TRY(find_prefix(server, facts));
  return facts;
}

std::vector<Window> rolling_windows(int64_t tokens, int64_t length) {
  std::vector<Window> windows;
  windows.reserve(static_cast<size_t>(tokens / length + 1));
  for (int64_t begin = 0; begin < tokens; begin += length) {
    const int64_t end = std::min(tokens, begin + length);
    // The first has the prefix alone before it, which is not counted here.
    windows.push_back({begin == 0 ? 0 : end - length - 1, begin, end});
  }
  return windows;
}

base::Result<Reply> Asker::ask(const Ask& ask) {
  if (const auto* one = std::get_if<GenerateAsk>(&ask)) return generate(*one);
  if (const auto* one = std::get_if<ChoicesAsk>(&ask)) return choices(*one);
  if (const auto* one = std::get_if<RollingAsk>(&ask)) return rolling(*one);
  return chat(std::get<ChatAsk>(ask));
}

base::Result<json::value> Asker::complete(json::object body, Reply& reply) {
  body["model"] = facts_.model;
  body["temperature"] = 0;
  BH_ASSIGN(json::value answer, server_.post("/v1/completions", json::serialize(body)));
  add_usage(answer, reply);
  return answer;
}

base::Result<Reply> Asker::generate(const GenerateAsk& ask) {
  Reply reply;
  json::object body;
  if (facts_.tokenizes) {
    BH_ASSIGN(TokenIds ids, tokenize(ask.prompt));
    cut_left(ids, facts_.length_max - 1 - ask.tokens_max, reply);
    body["prompt"] = json_ids(ids);
  } else {
    body["prompt"] = ask.prompt;
  }
  body["max_tokens"] = ask.tokens_max;
  body["stop"] = json::array(ask.stop.begin(), ask.stop.end());
  BH_ASSIGN(const json::value answer, complete(std::move(body), reply));
  BH_ASSIGN(const auto choice, choices_of(answer, 1));
  BH_ASSIGN(reply.text, completion_text(*choice[0]));
  return reply;
}

base::Result<Reply> Asker::choices(const ChoicesAsk& ask) {
  Reply reply;
  TokenIds context;
  if (facts_.tokenizes) {
    BH_ASSIGN(context, tokenize(ask.context));
    if (context.empty()) return base::corrupt("/tokenize gave a question no tokens");
  }
  if (ask.letters && !slow_choices_) {
    BH_ASSIGN(const bool told, choices_at_once(ask, context, reply));
    if (told) return reply;
  }
  if (facts_.tokenizes) {
    BH_TRY(choices_by_ids(ask, context, reply));
  } else {
    BH_TRY(choices_by_text(ask, reply));
  }
  return reply;
}

// How a tokenizer cuts behind a context depends on the end of the context alone, so that is asked
// once for all contexts that end alike.
base::Result<std::optional<TokenIds>> Asker::single_tokens(const ChoicesAsk& ask,
                                                           const TokenIds& context) {
  const size_t line = std::min(ask.context.rfind('\n'), ask.context.size());
  std::string key = ask.context.substr(
      std::max(line, ask.context.size() - std::min(ask.context.size(), kContextTail)));
  for (const std::string& choice : ask.choices) key += '\0' + choice;
  if (const auto known = single_.find(key); known != single_.end()) return known->second;
  std::optional<TokenIds> single = TokenIds();
  for (const std::string& choice : ask.choices) {
    BH_ASSIGN(const TokenIds whole, tokenize(ask.context + choice));
    if (whole.size() != context.size() + 1 ||
        !std::equal(context.begin(), context.end(), whole.begin())) {
      single.reset();
      break;
    }
    single->push_back(whole.back());
  }
  // Contexts that end in many ways are not worth remembering.
  if (single_.size() < kContextEndsMax) single_[key] = single;
  return single;
}

// Choices of one token each: one request for the next token tells those among the most probable,
// and finds its context in the cache. What is not among them is less probable than all that are.
base::Result<bool> Asker::choices_at_once(const ChoicesAsk& ask, const TokenIds& context,
                                          Reply& reply) {
  std::optional<TokenIds> ids;
  json::object body;
  if (facts_.tokenizes) {
    BH_ASSIGN(ids, single_tokens(ask, context));
    if (!ids) return false;
    TokenIds prompt = context;
    cut_left(prompt, facts_.length_max - 2, reply);
    body["prompt"] = json_ids(prompt);
    body["return_tokens_as_token_ids"] = true;
  } else {
    body["prompt"] = ask.context;
  }
  body["max_tokens"] = 1;
  body["logprobs"] = facts_.top_max;
  BH_ASSIGN(const json::value answer, complete(std::move(body), reply));
  BH_ASSIGN(const auto choice, choices_of(answer, 1));
  bool any = false;
  for (size_t i = 0; i < ask.choices.size(); ++i) {
    const std::optional<int64_t> id = ids ? std::optional((*ids)[i]) : std::nullopt;
    reply.scores.push_back(top_score(*choice[0], id, ask.choices[i]));
    any = any || reply.scores.back().has_value();
  }
  if (!any) reply.scores.clear();
  return any;
}

// Prompts with the log-probability of each of their tokens.
base::Result<json::value> Asker::echoed(json::value prompt, Reply& reply) {
  return complete(
      {{"prompt", std::move(prompt)}, {"max_tokens", 1}, {"logprobs", 1}, {"echo", true}}, reply);
}

base::Status Asker::choices_by_ids(const ChoicesAsk& ask, const TokenIds& context, Reply& reply) {
  json::array prompts;
  std::vector<std::pair<size_t, size_t>> scored;
  scored.reserve(ask.choices.size());
  for (const std::string& choice : ask.choices) {
    BH_ASSIGN(TokenIds whole, tokenize(ask.context + choice));
    const size_t behind = whole.size() - std::min(whole.size(), context.size());
    cut_left(whole, facts_.length_max - 1, reply);
    if (behind == 0 || behind >= whole.size()) {
      return base::unsupported("the choice '" + choice + "' has no tokens of its own, or no room");
    }
    scored.emplace_back(whole.size() - behind, whole.size());
    prompts.push_back(json_ids(whole));
  }
  BH_ASSIGN(const json::value answer, echoed(std::move(prompts), reply));
  BH_ASSIGN(const auto given, choices_of(answer, ask.choices.size()));
  reply.scores.clear();
  for (size_t i = 0; i < given.size(); ++i) {
    BH_ASSIGN(const double score, echoed_score(*given[i], scored[i].first, scored[i].second));
    reply.scores.emplace_back(score);
  }
  return {};
}

base::Status Asker::choices_by_text(const ChoicesAsk& ask, Reply& reply) {
  json::array prompts;
  for (const std::string& choice : ask.choices) prompts.emplace_back(ask.context + choice);
  BH_ASSIGN(const json::value answer, echoed(std::move(prompts), reply));
  BH_ASSIGN(const auto given, choices_of(answer, ask.choices.size()));
  reply.scores.clear();
  for (size_t i = 0; i < given.size(); ++i) {
    BH_ASSIGN(const double score,
              echoed_text_score(*given[i], characters(ask.context), ask.choices[i]));
    reply.scores.emplace_back(score);
  }
  return {};
}

base::Result<Reply> Asker::rolling(const RollingAsk& ask) {
  Reply reply;
  BH_ASSIGN(const TokenIds ids, tokenize(ask.text));
  double total = 0.0;
  // One place for the prefix or the token before, one for the token that is generated.
  const int64_t length = std::max<int64_t>(1, std::min(facts_.length_max, kRollingMax) - 2);
  for (const Window& window : rolling_windows(static_cast<int64_t>(ids.size()), length)) {
    TokenIds prompt;
    prompt.reserve(static_cast<size_t>(window.end - window.context_begin) + 1);
    if (window.begin == 0) prompt.push_back(facts_.prefix.value_or(0));
    for (int64_t i = window.context_begin; i < window.end; ++i) {
      prompt.push_back(ids[static_cast<size_t>(i)]);
    }
    const size_t scored = static_cast<size_t>(window.end - window.begin);
    BH_ASSIGN(const json::value answer, echoed(json_ids(prompt), reply));
    BH_ASSIGN(const auto choice, choices_of(answer, 1));
    BH_ASSIGN(const double score, echoed_score(*choice[0], prompt.size() - scored, prompt.size()));
    total += score;
  }
  reply.scores.emplace_back(total);
  return reply;
}

base::Result<Reply> Asker::chat(const ChatAsk& ask) {
  Reply reply;
  base::JsonWriter body;
  body.begin_object().key("model").value(facts_.model);
  body.key("messages").raw(ask.messages);
  if (!ask.tools.empty()) body.key("tools").raw(ask.tools);
  body.key("temperature").value(0).key("max_tokens").value(ask.tokens_max).end_object();
  BH_ASSIGN(const json::value answer, server_.post("/v1/chat/completions", body.text()));
  add_usage(answer, reply);
  BH_ASSIGN(const auto choice, choices_of(answer, 1));
  BH_TRY(read_message(*choice[0], reply));
  return reply;
}

}  // namespace bulkhead::apps::eval
