#include "apps/eval/tasks/arc.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <charconv>

#include "apps/eval/tasks/data_files.h"
#include "apps/eval/tasks/multiple_choice.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

namespace json = boost::json;

constexpr size_t kChoicesMax = 16;
constexpr std::string_view kLead = "Please choose the correct answer to the question: ";
constexpr Source kSource{"ARC-Challenge-test.json and ARC-Easy-test.json",
                         "AGI-Edgerunners/LLM-Adapters (dataset/ARC-*/test.json)"};

std::string ask_text(const ArcItem& item) { return "Question: " + item.question + "\nAnswer:"; }

// The texts between "Answer1: ", " Answer2: " and so on.
std::vector<std::string> split_choices(std::string_view text) {
  std::vector<std::string> choices;
  std::string mark = "Answer1: ";
  if (text.rfind(mark, 0) != 0) return choices;
  while (choices.size() < kChoicesMax) {
    text.remove_prefix(mark.size());
    mark = fmt::format(" Answer{}: ", choices.size() + 2);
    const size_t end = text.find(mark);
    choices.emplace_back(stripped(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end);
  }
  return choices;
}

base::Result<std::vector<ArcItem>> read_items(const std::string& path) {
  BH_ASSIGN(const std::string text, read_data(path, kSource));
  boost::system::error_code bad;
  const json::value value = json::parse(text, bad);
  if (bad || !value.is_array() || value.as_array().empty()) {
    return base::corrupt(path + " is no JSON array of questions");
  }
  std::vector<ArcItem> items;
  items.reserve(value.as_array().size());
  for (const json::value& entry : value.as_array()) {
    const std::string where = fmt::format("{} question {}", path, items.size() + 1);
    if (!entry.is_object()) return base::corrupt(where + " is no object");
    BH_ASSIGN(const std::string instruction, need_text(entry.as_object(), "instruction", where));
    BH_ASSIGN(const std::string answer, need_text(entry.as_object(), "answer", where));
    base::Result<ArcItem> item = parse_arc(instruction, answer);
    if (!item.ok()) return std::move(item).error().within(where);
    items.push_back(std::move(item).value());
  }
  return items;
}

base::Result<Task> load_arc(const LoadOptions& options, const std::string& name,
                            const std::string& file) {
  BH_ASSIGN(const std::vector<ArcItem> items, read_items(options.data + "/eval/arc/" + file));
  BH_ASSIGN(const size_t shots, need_shots(options.shots, 0, items.size() - 1));
  const size_t asked = items.size() - shots;
  std::string examples;
  for (size_t i = asked; i < items.size(); ++i) {
    examples += ask_text(items[i]) + " " + items[i].choices[items[i].right] + "\n\n";
  }
  Task task;
  task.name = name;
  task.settings = {{"shots", std::to_string(shots)}};
  task.questions.reserve(asked);
  for (size_t i = 0; i < asked; ++i) {
    task.questions.push_back(text_question(fmt::format("{}/{}", name, i),
                                           examples + ask_text(items[i]), items[i].choices,
                                           items[i].right));
  }
  return task;
}

}  // namespace

base::Result<ArcItem> parse_arc(const std::string& instruction, const std::string& answer) {
  constexpr std::string_view kFormat = "\n\nAnswer format:";
  constexpr std::string_view kFirst = "\n\nAnswer1: ";
  std::string_view text = instruction;
  if (text.rfind(kLead, 0) == 0) text.remove_prefix(kLead.size());
  text = text.substr(0, text.rfind(kFormat));
  const size_t first = text.rfind(kFirst);
  if (first == std::string_view::npos) {
    return base::corrupt("'instruction' has no \"Answer1: \" on a line of its own");
  }
  ArcItem item;
  item.question = std::string(stripped(text.substr(0, first)));
  item.choices = split_choices(text.substr(first + 2));
  constexpr std::string_view kAnswer = "answer";
  unsigned number = 0;
  const char* end = answer.data() + answer.size();
  if (answer.rfind(kAnswer, 0) == 0) {
    const auto [rest, error] = std::from_chars(answer.data() + kAnswer.size(), end, number);
    if (error != std::errc() || rest != end) number = 0;
  }
  if (number == 0 || number > item.choices.size()) {
    return base::corrupt(fmt::format("'answer' is \"{}\", and there are {} choices",
                                     answer.substr(0, 40), item.choices.size()));
  }
  item.right = number - 1;
  return item;
}

base::Result<Task> load_arc_challenge(const LoadOptions& options) {
  return load_arc(options, "arc_challenge", "ARC-Challenge-test.json");
}

base::Result<Task> load_arc_easy(const LoadOptions& options) {
  return load_arc(options, "arc_easy", "ARC-Easy-test.json");
}

}  // namespace bulkhead::apps::eval
