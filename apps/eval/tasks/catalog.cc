#include "apps/eval/tasks/catalog.h"

#include <fmt/format.h>

#include <set>

#include "apps/eval/tasks/arc.h"
#include "apps/eval/tasks/bfcl.h"
#include "apps/eval/tasks/conversations.h"
#include "apps/eval/tasks/gsm8k.h"
#include "apps/eval/tasks/mmlu.h"
#include "apps/eval/tasks/wikitext.h"

namespace bulkhead::apps::eval {
namespace {

// Outcomes are kept and compared by the names of questions.
base::Result<Task> with_own_names(Task task) {
  std::set<std::string_view> names;
  for (const Question& question : task.questions) {
    if (names.insert(question.id).second) continue;
    return base::corrupt(fmt::format("two questions of {} are called {}; give each its own id",
                                     task.name, question.id));
  }
  return task;
}

}  // namespace

const std::vector<TaskEntry>& task_catalog() {
  static const std::vector<TaskEntry> entries = {
      {"gsm8k", "word problems, 8 examples, the generated number", true, false, load_gsm8k},
      {"mmlu", "57 subjects, 5 examples, the likeliest of four letters", true, false, load_mmlu},
      {"arc_challenge", "science questions, the likeliest answer", true, false, load_arc_challenge},
      {"arc_easy", "the easier ones", true, false, load_arc_easy},
      {"wikitext", "perplexity of wikitext-2", true, true, load_wikitext},
      {"bfcl", "tool calls of six BFCL sets", false, false, load_bfcl},
      {"conversations", "answers and calls of chats of your own", false, false, load_conversations},
  };
  return entries;
}

base::Result<Task> load_task(const std::string& name, const LoadOptions& options) {
  std::string names;
  for (const TaskEntry& entry : task_catalog()) {
    if (entry.name == name) {
      BH_ASSIGN(Task task, entry.load(options));
      return with_own_names(std::move(task));
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  return base::invalid_argument("task",
                                fmt::format("there is no task '{}'; there are {}", name, names));
}

}  // namespace bulkhead::apps::eval
