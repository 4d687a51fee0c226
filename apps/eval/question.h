// A question of a benchmark: what the server is asked, and how its reply is judged.
//
// Threads: plain values; `judge` is a pure function that any thread may call. Invariants: a task's
// ids differ; a verdict's measures are the same names in the same order for every question of a
// task.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace bulkhead::apps::eval {

// The greedy continuation of a text.
struct GenerateAsk {
  std::string prompt;
  int64_t tokens_max = 256;
  std::vector<std::string> stop;
};

// The log-likelihood of each of these texts after the context.
struct ChoicesAsk {
  std::string context;
  std::vector<std::string> choices;  // as they follow the context, blank included
  // Only which is the likeliest counts, so that the server's list of likely next tokens will do.
  bool letters = false;
};

// The log-likelihood of a whole text, in windows.
struct RollingAsk {
  std::string text;
};

// The greedy answer of a chat; both members are JSON text, `tools` may be empty.
struct ChatAsk {
  std::string messages;
  std::string tools;
  int64_t tokens_max = 512;
};

using Ask = std::variant<GenerateAsk, ChoicesAsk, RollingAsk, ChatAsk>;

struct ToolCall {
  std::string name;
  std::string arguments;  // the text that the model wrote
};

struct Reply {
  std::string text;
  std::vector<ToolCall> calls;
  // One for each choice, or one for a whole text; nothing: less than every one that is there.
  std::vector<std::optional<double>> scores;
  uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  bool truncated = false;  // the prompt lost its beginning, for it was too long
};

struct Measure {
  std::string name;
  double value = 0.0;
};

struct Verdict {
  std::string answer;  // what was understood
  std::vector<Measure> measures;
};

struct Question {
  std::string id;
  std::string group;  // subject or set; empty where the task has none
  Ask ask;
  std::string wanted;
  std::function<Verdict(const Reply&)> judge;
};

enum class Scoring {
  kShares,      // measures are 1 or 0, and their means count
  kPerplexity,  // measures are loglikelihood, words and bytes of each text
};

struct Task {
  std::string name;
  std::vector<std::pair<std::string, std::string>> settings;  // all that makes another benchmark
  Scoring scoring = Scoring::kShares;
  bool shares_prefix = false;  // the prompts of a group begin alike, by much
  std::vector<Question> questions;
};

// Everything that was asked and wanted, as one text: two tasks with the same are the same.
std::string fingerprint(const Task& task);

// `limit` questions, evenly spread and always the same; 0: all.
void keep_some(Task& task, uint64_t limit);

}  // namespace bulkhead::apps::eval
