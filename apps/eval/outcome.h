// What came of a question, and the files it is kept in.
//
// Threads: plain values; a journal belongs to one thread. Invariants: an outcome reads back as it
// was written; a journal is only gone on with where model, settings and questions are the same.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/eval/question.h"
#include "base/json_writer.h"
#include "base/result.h"

namespace bulkhead::apps::eval {

struct Outcome {
  std::string id;
  std::string group;
  std::string wanted;
  Verdict verdict;
  Reply reply;
};

void write_outcome(base::JsonWriter& out, const Outcome& outcome);
// Errors: kCorruptData, which names the member.
base::Result<Outcome> read_outcome(const boost::json::value& value);

// What a task's answers depend on.
struct TaskIdentity {
  std::string task;
  std::string model;
  std::vector<std::pair<std::string, std::string>> settings;
  std::string questions;  // fingerprint of all there are, whatever the limit
};

void write_identity(base::JsonWriter& out, const TaskIdentity& identity);
base::Result<TaskIdentity> read_identity(const boost::json::value& value);
// The first thing in which they differ, in words; empty: none.
std::string difference(const TaskIdentity& a, const TaskIdentity& b);

// The file of finished questions, one JSON object a line, beside the result that is to be.
class Journal {
 public:
  // Reads what is there. A last line that was cut off is dropped. Errors: kIo, and kCorruptData for
  // anything else that is no journal.
  static base::Result<Journal> open(const std::string& path, bool restart);
  Journal(Journal&&) = default;

  // The outcomes of this task, by id. Errors: kInvalidArgument where they are those of another
  // model, other settings or other questions.
  base::Result<std::map<std::string, Outcome>> begin(const TaskIdentity& identity);
  base::Status add(const std::string& task, const Outcome& outcome);
  // The result is written: nothing is left to go on with.
  void remove();

 private:
  explicit Journal(std::string path) : path_(std::move(path)) {}
  base::Status read_line(std::string_view line);
  base::Status append(const std::string& line);

  std::string path_;
  std::map<std::string, TaskIdentity> identities_;
  std::map<std::string, std::map<std::string, Outcome>> outcomes_;
  std::ofstream file_;
};

}  // namespace bulkhead::apps::eval
