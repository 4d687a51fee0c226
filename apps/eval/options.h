// What `bulkhead eval`, `eval compare` and `eval precision` were asked to do; filled by
// cli_eval.cc, ranges checked there.
//
// Threads: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bulkhead::apps {

struct EvalOptions {
  std::string url = "http://127.0.0.1:30000";
  std::string api_key;
  std::string model;               // empty: the first that the server lists
  std::vector<std::string> tasks;  // names of eval/tasks/catalog.h
  std::string data = "data";       // folder with eval/ and text/

  uint64_t limit = 0;      // questions of each task, evenly spread; 0: all
  int shots = -1;          // below 0: what the task says
  int64_t max_length = 0;  // tokens of a request; 0: what the server says, else 2048
  unsigned concurrency = 32;
  double timeout_seconds = 600.0;
  unsigned retries = 5;
  bool slow_choices = false;  // score every choice by its own prompt

  std::string output;    // JSON file; empty: none, and nothing to go on from
  bool restart = false;  // what an interrupted run left is dropped
};

struct EvalCompareOptions {
  std::string before;  // result files of `bulkhead eval`
  std::string after;
  std::string output;         // JSON file; empty: none
  uint64_t flips_max = 20;    // flipped questions that the text names, of each kind
  bool fail_on_loss = false;  // a share that fell beyond chance is a failure
};

struct EvalPrecisionOptions {
  std::string model_path;
  std::vector<std::string> pairs = {"bf16/fp8kv", "fp8/int4"};  // of eval/precision/precisions.h
  std::vector<std::string> tasks;
  std::string data = "data";
  std::string output;  // folder of results and report

  uint64_t limit = 0;
  int shots = -1;
  unsigned concurrency = 32;
  unsigned threads = 0;  // of the servers; 0: theirs by default
  double timeout_seconds = 600.0;
  std::string text;      // whose drift is measured; empty: wikitext-2 of the data
  size_t windows = 32;   // stretches of it
  bool restart = false;  // what earlier runs left of these precisions is dropped
};

}  // namespace bulkhead::apps
