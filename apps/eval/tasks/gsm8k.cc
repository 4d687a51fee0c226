#include "apps/eval/tasks/gsm8k.h"

#include <fmt/format.h>

#include "apps/eval/tasks/data_files.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

constexpr size_t kShots = 8;
constexpr int64_t kTokensMax = 256;
constexpr const char* kInvalid = "[invalid]";
constexpr Source kSource{"train.jsonl and test.jsonl",
                         "openai/grade-school-math (grade_school_math/data)"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_figure(char c) { return is_digit(c) || c == '.' || c == ','; }
bool is_price(char c) { return is_figure(c) || c == '$'; }

// Length of what `is_part` takes from `at` on.
template <typename Part>
size_t run_of(std::string_view text, size_t at, Part is_part) {
  size_t end = at;
  while (end < text.size() && is_part(text[end])) ++end;
  return end - at;
}

// What (-?[$0-9.,]{2,})|(-?[0-9]+) matches at this place; 0: nothing.
size_t number_at(std::string_view text, size_t at) {
  const size_t sign = text[at] == '-' ? 1 : 0;
  const size_t price = run_of(text, at + sign, is_price);
  if (price >= 2) return sign + price;
  const size_t digits = run_of(text, at + sign, is_digit);
  return digits > 0 ? sign + digits : 0;
}

// What lm-eval's regexes_to_ignore leave, in lower case.
std::string normalized(std::string_view text) {
  std::string bare = replaced(replaced(text, ",", ""), "$", "");
  const size_t mark = bare.rfind("#### ");
  if (mark != std::string::npos) bare.erase(0, mark + 5);
  // \.$ also matches before a last line break.
  const size_t last = bare.size() - (!bare.empty() && bare.back() == '\n' ? 1 : 0);
  if (last > 0 && bare[last - 1] == '.') bare.erase(last - 1, 1);
  for (char& c : bare) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return bare;
}

Verdict judge(const Reply& reply, const std::string& solution) {
  const std::string strict = strict_match(reply.text);
  const std::string flexible = flexible_extract(reply.text);
  return {flexible,
          {{"exact_match_strict", numbers_match(strict, solution) ? 1.0 : 0.0},
           {"exact_match_flexible", numbers_match(flexible, solution) ? 1.0 : 0.0}}};
}

std::string ask_text(const std::string& question) { return "Question: " + question + "\nAnswer:"; }

struct Problem {
  std::string question;
  std::string answer;
};

base::Result<std::vector<Problem>> read_problems(const std::string& path) {
  BH_ASSIGN(const std::vector<boost::json::object> lines, read_json_lines(path, kSource));
  std::vector<Problem> problems;
  problems.reserve(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string where = fmt::format("{} problem {}", path, i + 1);
    Problem problem;
    BH_ASSIGN(problem.question, need_text(lines[i], "question", where));
    BH_ASSIGN(problem.answer, need_text(lines[i], "answer", where));
    problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace

std::string strict_match(std::string_view answer) {
  constexpr std::string_view kMark = "#### ";
  for (size_t at = answer.find(kMark); at != std::string_view::npos;
       at = answer.find(kMark, at + 1)) {
    const size_t begin = at + kMark.size();
    const size_t sign = begin < answer.size() && answer[begin] == '-' ? 1 : 0;
    const size_t length = run_of(answer, begin + sign, is_figure);
    if (length > 0) return std::string(answer.substr(begin, sign + length));
  }
  return kInvalid;
}

std::string flexible_extract(std::string_view answer) {
  std::string_view last = kInvalid;
  for (size_t at = 0; at < answer.size();) {
    const size_t length = number_at(answer, at);
    if (length > 0) last = answer.substr(at, length);
    at += length > 0 ? length : 1;
  }
  return std::string(last);
}

bool numbers_match(std::string_view extracted, std::string_view solution) {
  return normalized(extracted) == normalized(solution);
}

base::Result<Task> load_gsm8k(const LoadOptions& options) {
  const std::string folder = options.data + "/eval/gsm8k/";
  BH_ASSIGN(const std::vector<Problem> train, read_problems(folder + "train.jsonl"));
  BH_ASSIGN(const std::vector<Problem> test, read_problems(folder + "test.jsonl"));
  BH_ASSIGN(const size_t shots, need_shots(options.shots, kShots, train.size()));
  std::string examples;
  for (size_t i = 0; i < shots; ++i) {
    examples += ask_text(train[i].question) + " " + train[i].answer + "\n\n";
  }
  Task task;
  task.name = "gsm8k";
  task.settings = {{"shots", std::to_string(shots)}, {"max_tokens", std::to_string(kTokensMax)}};
  task.shares_prefix = shots > 0;
  task.questions.reserve(test.size());
  for (size_t i = 0; i < test.size(); ++i) {
    const std::string& solution = test[i].answer;
    task.questions.push_back({fmt::format("gsm8k/{}", i), "",
                              GenerateAsk{examples + ask_text(test[i].question),
                                          kTokensMax,
                                          {"Question:", "</s>", "<|im_end|>"}},
                              normalized(solution),
                              [solution](const Reply& reply) { return judge(reply, solution); }});
  }
  return task;
}

}  // namespace bulkhead::apps::eval
