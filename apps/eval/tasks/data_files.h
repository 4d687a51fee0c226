// Reading the files of benchmarks, with messages that say what to fetch.
//
// Threads: pure functions.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bulkhead::apps::eval {

// Where a set is published, for the message when it is not there.
struct Source {
  std::string_view files;   // "test.jsonl and train.jsonl"
  std::string_view origin;  // "openai/grade-school-math, grade_school_math/data"
};

// A file of the set. Errors: kNotFound with what to fetch from where; else as read_file.
base::Result<std::string> read_data(const std::string& path, const Source& source);

// One JSON object a line; empty lines are none. Errors: kCorruptData with file and line.
base::Result<std::vector<boost::json::object>> read_json_lines(const std::string& path,
                                                               const Source& source);

// A member that must be a text. Errors: kCorruptData with `where` and the member's name.
base::Result<std::string> need_text(const boost::json::object& object, std::string_view name,
                                    const std::string& where);

// Errors: kInvalidArgument where fewer examples are there.
base::Result<size_t> need_shots(int wished, size_t usual, size_t there);

}  // namespace bulkhead::apps::eval
