// A run of `bulkhead bench reproduce` for programs: bench/reproduce_plot.py draws its curves.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "apps/bench/reproduce/table.h"

namespace bulkhead::apps::reproduce {

// What a table says of where it was measured.
struct RunFacts {
  std::string machine;  // the processor's name
  std::string isa;
  std::string kind;  // Bounds::machine
  unsigned threads = 0;
  int rounds = 0;
  int32_t context = 0;
  double operations = 0.0;  // the machine's peaks, per second
  double bytes = 0.0;
};

std::string table_json(const RunFacts& facts, const Table& table);

}  // namespace bulkhead::apps::reproduce
