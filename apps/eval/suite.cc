#include "apps/eval/suite.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "apps/eval/progress.h"
#include "apps/eval/run.h"
#include "apps/eval/tasks/catalog.h"
#include "apps/eval/text_tools.h"
#include "http/client.h"

namespace bulkhead::apps::eval {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Session {
  const EvalOptions& options;
  const Deployment& deployment;
  ServerFacts facts;
  std::optional<Journal> journal;
};

base::Result<ServerFacts> look_at_server(const EvalOptions& options, const std::vector<Task>& tasks,
                                         const ServerAddress& address) {
  FactsWanted wanted{options.model, options.max_length, false, false};
  for (const TaskEntry& entry : task_catalog()) {
    for (const Task& task : tasks) {
      wanted.completions = wanted.completions || (task.name == entry.name && entry.completions);
      wanted.prefix = wanted.prefix || (task.name == entry.name && entry.prefix);
    }
  }
  // The first request tells whether there is a server at all: nobody waits for that.
  Server server(transport_to(options, address),
                {0, [](std::chrono::milliseconds) { return false; }});
  return look_at(server, wanted);
}

TaskIdentity identity_of(const Task& task, const Session& session) {
  TaskIdentity identity{task.name, session.facts.model, task.settings, fingerprint(task)};
  identity.settings.emplace_back("max_length", std::to_string(session.facts.length_max));
  identity.settings.emplace_back("prompts", session.facts.tokenizes ? "token ids" : "texts");
  identity.settings.emplace_back("slow_choices", session.options.slow_choices ? "yes" : "no");
  identity.settings.insert(identity.settings.end(), session.deployment.settings.begin(),
                           session.deployment.settings.end());
  return identity;
}

base::Status ask_questions(const Task& task, const std::vector<const Question*>& open,
                           std::map<std::string, Outcome>& outcomes, Session& session) {
  const Clock::time_point start = Clock::now();
  Progress progress(std::cerr, ::isatty(STDERR_FILENO) != 0, task.name, outcomes.size(),
                    task.questions.size());
  const MakeAsker make_asker = [&session](auto wait) {
    return Asker(Server(transport_to(session.options, session.deployment.address),
                        {session.options.retries, std::move(wait)}),
                 session.facts, session.options.slow_choices);
  };
  base::Status status = run_questions(open, task.shares_prefix, session.options.concurrency,
                                      make_asker, [&](Outcome outcome) -> base::Status {
                                        if (session.journal)
                                          BH_TRY(session.journal->add(task.name, outcome));
                                        progress.add(outcome, seconds_since(start));
                                        const std::string id = outcome.id;
                                        outcomes.insert_or_assign(id, std::move(outcome));
                                        return {};
                                      });
  progress.finish();
  return status;
}

base::Error other_means(const std::string& task, const std::string& difference) {
  return base::invalid_argument(
      "--output", fmt::format("the result that is there was made by other means ({}: {}); name "
                              "another --output, or remove it",
                              task, difference));
}

const TaskResult* find_task(const std::vector<TaskResult>& results, const std::string& name) {
  for (const TaskResult& result : results) {
    if (result.identity.task == name) return &result;
  }
  return nullptr;
}

// What was answered before: in the journal, or in a result.
base::Result<std::map<std::string, Outcome>> earlier_outcomes(const TaskIdentity& identity,
                                                              const TaskResult* known,
                                                              Session& session) {
  std::map<std::string, Outcome> outcomes;
  if (session.journal) {
    BH_ASSIGN(outcomes, session.journal->begin(identity));
  }
  if (known == nullptr) return outcomes;
  const std::string other = difference(known->identity, identity);
  if (!other.empty()) return other_means(identity.task, other);
  for (const Outcome& outcome : known->outcomes) outcomes.insert_or_assign(outcome.id, outcome);
  return outcomes;
}

// What is known beyond the questions of this run is not lost.
void keep_rest(const TaskResult& before, const std::map<std::string, Outcome>& of_this_run,
               TaskResult& result) {
  for (const Outcome& outcome : before.outcomes) {
    if (!of_this_run.contains(outcome.id)) result.outcomes.push_back(outcome);
  }
  result.seconds += before.seconds;
  result.asked += before.asked;
}

base::Result<TaskResult> run_task(Task task, const TaskResult* known_before, Session& session) {
  TaskResult result;
  result.identity = identity_of(task, session);
  result.scoring = task.scoring;
  keep_some(task, session.options.limit);
  BH_ASSIGN(auto outcomes, earlier_outcomes(result.identity, known_before, session));
  std::map<std::string, Outcome> known;
  std::vector<const Question*> open;
  open.reserve(task.questions.size());
  for (const Question& question : task.questions) {
    const auto found = outcomes.find(question.id);
    if (found == outcomes.end()) {
      open.push_back(&question);
    } else {
      known.insert(std::move(*found));
    }
  }
  const Clock::time_point start = Clock::now();
  BH_TRY(ask_questions(task, open, known, session));
  result.seconds = seconds_since(start);
  result.asked = open.size();
  result.outcomes.reserve(task.questions.size());
  for (const Question& question : task.questions) {
    result.outcomes.push_back(std::move(known.at(question.id)));
  }
  if (known_before != nullptr) keep_rest(*known_before, known, result);
  return result;
}

// The known result of this task, if any, where it was made by the means that can be told.
base::Result<const TaskResult*> known_result(const Task& task, const std::vector<TaskResult>& known,
                                             const Deployment& deployment) {
  const TaskResult* found = find_task(known, task.name);
  if (found == nullptr) return found;
  // What only a server can tell is taken as it was.
  TaskIdentity wanted{task.name, found->identity.model, found->identity.settings,
                      fingerprint(task)};
  for (const auto* settings : {&task.settings, &deployment.settings}) {
    for (const auto& [name, value] : *settings) {
      const auto at = std::find_if(wanted.settings.begin(), wanted.settings.end(),
                                   [&name](const auto& one) { return one.first == name; });
      if (at == wanted.settings.end()) {
        wanted.settings.emplace_back(name, value);
      } else {
        at->second = value;
      }
    }
  }
  const std::string other = difference(found->identity, wanted);
  if (!other.empty()) return other_means(task.name, other);
  return found;
}

}  // namespace

Transport transport_to(const EvalOptions& options, const ServerAddress& address) {
  const std::chrono::milliseconds timeout(static_cast<int64_t>(options.timeout_seconds * 1e3));
  const auto client = std::make_shared<http::Client>(address.host, address.port, timeout);
  std::vector<http::Header> headers = {{"Content-Type", "application/json"}};
  if (!options.api_key.empty()) headers.push_back({"Authorization", "Bearer " + options.api_key});
  return [client, headers](const std::string& method, const std::string& target,
                           const std::string& body) {
    return client->send(method, target, headers, body);
  };
}

base::Result<std::vector<Task>> load_tasks(const EvalOptions& options) {
  if (options.tasks.empty()) {
    return base::invalid_argument(
        "task", "which task? bulkhead eval gsm8k mmlu asks two; --help lists them all");
  }
  std::vector<Task> tasks;
  tasks.reserve(options.tasks.size());
  for (const std::string& name : options.tasks) {
    BH_ASSIGN(Task task, load_task(name, {options.data, options.shots}));
    tasks.push_back(std::move(task));
  }
  return tasks;
}

base::Result<std::vector<TaskResult>> run_suite(const EvalOptions& options, std::vector<Task> tasks,
                                                const Deployment& deployment,
                                                std::vector<TaskResult> known) {
  BH_ASSIGN(ServerFacts facts, look_at_server(options, tasks, deployment.address));
  Session session{options, deployment, std::move(facts), std::nullopt};
  if (!options.output.empty()) {
    BH_ASSIGN(Journal journal, Journal::open(options.output + ".journal", options.restart));
    session.journal.emplace(std::move(journal));
  }
  std::vector<TaskResult> results;
  results.reserve(tasks.size() + known.size());
  for (Task& task : tasks) {
    const TaskResult* before = find_task(known, task.name);
    BH_ASSIGN(TaskResult result, run_task(std::move(task), before, session));
    results.push_back(std::move(result));
  }
  for (TaskResult& one : known) {
    if (find_task(results, one.identity.task) == nullptr) results.push_back(std::move(one));
  }
  if (options.output.empty()) return results;
  BH_TRY(write_file(options.output, result_json(results)));
  session.journal->remove();
  return results;
}

base::Result<bool> answers_all(const EvalOptions& options, const std::vector<Task>& tasks,
                               const Deployment& deployment, const std::vector<TaskResult>& known) {
  for (const Task& task : tasks) {
    BH_ASSIGN(const TaskResult* found, known_result(task, known, deployment));
    if (found == nullptr) return false;
    std::set<std::string_view> answered;
    for (const Outcome& outcome : found->outcomes) answered.insert(outcome.id);
    Task kept = task;
    keep_some(kept, options.limit);
    for (const Question& question : kept.questions) {
      if (!answered.contains(question.id)) return false;
    }
  }
  return true;
}

base::Result<std::vector<TaskResult>> read_result_file(const std::string& path) {
  BH_ASSIGN(const std::string text, read_file(path));
  base::Result<std::vector<TaskResult>> result = read_result(text);
  if (!result.ok()) return std::move(result).error().within(path);
  return result;
}

}  // namespace bulkhead::apps::eval
