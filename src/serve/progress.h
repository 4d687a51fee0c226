// Progress of long work for the person who waits: a bar on a terminal, a line per tenth elsewhere.
//
// Threads: one thread. Invariant: writes to the given stream only; finish() leaves a complete line.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "base/clock.h"

namespace bulkhead::serve {

class Progress {
 public:
  // `terminal`: redraw one line; otherwise print a new line at every tenth of the way.
  Progress(std::ostream& out, bool terminal, std::string label, const base::Clock& clock);
  void update(uint64_t done_bytes, uint64_t total_bytes);
  void finish();

 private:
  void draw(uint64_t done, uint64_t total);

  std::ostream& out_;
  const bool terminal_;
  const std::string label_;
  const base::Clock& clock_;
  const base::Nanoseconds started_;
  base::Nanoseconds drawn_{0};
  int tenth_ = 0;
  bool open_line_ = false;
};

}  // namespace bulkhead::serve
