#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "apps/eval/compare.h"
#include "apps/eval/progress.h"
#include "apps/eval/run.h"
#include "apps/eval/tasks/catalog.h"
#include "apps/eval/text_tools.h"
#include "apps/server_address.h"
#include "commands.h"
#include "http/client.h"

namespace bulkhead::apps {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One client for each asker: a client is one thread's.
eval::Transport transport_to(const EvalOptions& options, const ServerAddress& address) {
  const std::chrono::milliseconds timeout(static_cast<int64_t>(options.timeout_seconds * 1e3));
  const auto client = std::make_shared<http::Client>(address.host, address.port, timeout);
  std::vector<http::Header> headers = {{"Content-Type", "application/json"}};
  if (!options.api_key.empty()) headers.push_back({"Authorization", "Bearer " + options.api_key});
  return [client, headers](const std::string& method, const std::string& target,
                           const std::string& body) {
    return client->send(method, target, headers, body);
  };
}

struct Session {
  const EvalOptions& options;
  ServerAddress address;
  eval::ServerFacts facts;
  std::optional<eval::Journal> journal;
};

base::Result<std::vector<eval::Task>> load_tasks(const EvalOptions& options) {
  if (options.tasks.empty()) {
    return base::invalid_argument(
        "task", "which task? bulkhead eval gsm8k mmlu asks two; --help lists them all");
  }
  std::vector<eval::Task> tasks;
  tasks.reserve(options.tasks.size());
  for (const std::string& name : options.tasks) {
    BH_ASSIGN(eval::Task task, eval::load_task(name, {options.data, options.shots}));
    tasks.push_back(std::move(task));
  }
  return tasks;
}

base::Result<eval::ServerFacts> look_at_server(const EvalOptions& options,
                                               const ServerAddress& address) {
  eval::FactsWanted wanted{options.model, options.max_length, false, false};
  for (const eval::TaskEntry& entry : eval::task_catalog()) {
    for (const std::string& name : options.tasks) {
      wanted.completions = wanted.completions || (name == entry.name && entry.completions);
      wanted.prefix = wanted.prefix || (name == entry.name && entry.prefix);
    }
  }
  // The first request tells whether there is a server at all: nobody waits for that.
  eval::Server server(transport_to(options, address),
                      {0, [](std::chrono::milliseconds) { return false; }});
  return eval::look_at(server, wanted);
}

eval::TaskIdentity identity_of(const eval::Task& task, const Session& session) {
  eval::TaskIdentity identity{task.name, session.facts.model, task.settings,
                              eval::fingerprint(task)};
  identity.settings.emplace_back("max_length", std::to_string(session.facts.length_max));
  identity.settings.emplace_back("prompts", session.facts.tokenizes ? "token ids" : "texts");
  identity.settings.emplace_back("slow_choices", session.options.slow_choices ? "yes" : "no");
  return identity;
}

base::Status ask_questions(const eval::Task& task, const std::vector<const eval::Question*>& open,
                           std::map<std::string, eval::Outcome>& outcomes, Session& session) {
  const Clock::time_point start = Clock::now();
  eval::Progress progress(std::cerr, ::isatty(STDERR_FILENO) != 0, task.name, outcomes.size(),
                          task.questions.size());
  const eval::MakeAsker make_asker = [&session](auto wait) {
    return eval::Asker(eval::Server(transport_to(session.options, session.address),
                                    {session.options.retries, std::move(wait)}),
                       session.facts, session.options.slow_choices);
  };
  base::Status status = eval::run_questions(open, task.shares_prefix, session.options.concurrency,
                                            make_asker, [&](eval::Outcome outcome) -> base::Status {
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

base::Result<eval::TaskResult> run_task(eval::Task task, Session& session) {
  eval::TaskResult result;
  result.identity = identity_of(task, session);
  result.scoring = task.scoring;
  eval::keep_some(task, session.options.limit);
  std::map<std::string, eval::Outcome> outcomes;
  if (session.journal) {
    BH_ASSIGN(outcomes, session.journal->begin(result.identity));
  }
  std::map<std::string, eval::Outcome> known;
  std::vector<const eval::Question*> open;
  open.reserve(task.questions.size());
  for (const eval::Question& question : task.questions) {
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
  for (const eval::Question& question : task.questions) {
    result.outcomes.push_back(std::move(known.at(question.id)));
  }
  return result;
}

base::Status evaluate(const EvalOptions& options) {
  BH_ASSIGN(const ServerAddress address, parse_server_url(options.url));
  BH_ASSIGN(std::vector<eval::Task> tasks, load_tasks(options));
  BH_ASSIGN(eval::ServerFacts facts, look_at_server(options, address));
  Session session{options, address, std::move(facts), std::nullopt};
  if (!options.output.empty()) {
    BH_ASSIGN(eval::Journal journal,
              eval::Journal::open(options.output + ".journal", options.restart));
    session.journal.emplace(std::move(journal));
  }
  std::vector<eval::TaskResult> results;
  results.reserve(tasks.size());
  for (eval::Task& task : tasks) {
    BH_ASSIGN(eval::TaskResult result, run_task(std::move(task), session));
    results.push_back(std::move(result));
  }
  std::cout << eval::result_text(results) << std::flush;
  if (options.output.empty()) return {};
  BH_TRY(eval::write_file(options.output, eval::result_json(results)));
  session.journal->remove();
  return {};
}

base::Result<std::vector<eval::TaskResult>> result_of(const std::string& path) {
  BH_ASSIGN(const std::string text, eval::read_file(path));
  base::Result<std::vector<eval::TaskResult>> result = eval::read_result(text);
  if (!result.ok()) return std::move(result).error().within(path);
  return result;
}

// Whether nothing fell that must not.
base::Result<bool> compare_files(const EvalCompareOptions& options) {
  BH_ASSIGN(const std::vector<eval::TaskResult> before, result_of(options.before));
  BH_ASSIGN(const std::vector<eval::TaskResult> after, result_of(options.after));
  BH_ASSIGN(const eval::ComparedResults compared, eval::compare(before, after));
  std::cout << eval::comparison_text(compared, options.flips_max) << std::flush;
  if (!options.output.empty()) {
    BH_TRY(eval::write_file(options.output, eval::comparison_json(compared)));
  }
  if (!options.fail_on_loss) return true;
  const std::vector<std::string> fallen = eval::losses(compared);
  for (const std::string& name : fallen) std::cerr << "fell by more than chance: " << name << '\n';
  return fallen.empty();
}

bool is_wrong_input(base::ErrorCode code) {
  return code == base::ErrorCode::kInvalidArgument || code == base::ErrorCode::kNotFound ||
         code == base::ErrorCode::kUnsupported || code == base::ErrorCode::kCorruptData;
}

// The exit code of an error.
int told(const base::Error& error) {
  std::cerr << "error: " << error.message << '\n';
  return is_wrong_input(error.code) ? 2 : 1;
}

}  // namespace

int run_eval(const EvalOptions& options) {
  const base::Status status = evaluate(options);
  if (status.ok()) return 0;
  const int code = told(status.error());
  if (code == 1 && !options.output.empty()) {
    std::cerr << "what is done is kept: the same command goes on\n";
  }
  return code;
}

int run_eval_compare(const EvalCompareOptions& options) {
  const base::Result<bool> good = compare_files(options);
  if (!good.ok()) return told(good.error());
  return *good ? 0 : 1;
}

}  // namespace bulkhead::apps
