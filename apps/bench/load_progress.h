// The line that a person watches during a run: how far, how fast, how long still.
//
// Threads: one thread. Invariant: writes nothing unless the stream is a terminal; finish() leaves
// no part of a line behind.
#pragma once

#include <ostream>
#include <string>

#include "apps/bench/load_run.h"

namespace bulkhead::apps {

// "  37 of 64, 8 open, 1 failed, 412.0 tok/s, 12 s left".
std::string progress_text(const LoadProgress& progress);

class LoadProgressLine {
 public:
  LoadProgressLine(std::ostream& out, bool terminal) : out_(out), terminal_(terminal) {}
  void update(const LoadProgress& progress);
  void finish();

 private:
  std::ostream& out_;
  const bool terminal_;
  bool open_line_ = false;
};

}  // namespace bulkhead::apps
