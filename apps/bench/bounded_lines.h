// The lines of a file that somebody else wrote, none longer than a bound.
//
// Threads: one. Invariant: never holds more than one line and its bound.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bulkhead::apps {

class BoundedLines {
 public:
  // `name` is what errors call the file.
  BoundedLines(std::istream& in, std::string name, size_t bytes_max);

  // The next line, without its end ("\n" or "\r\n"), valid until the next call; false: there is
  // none. Errors: kInvalidArgument for a line beyond the bound.
  base::Result<bool> next(std::string_view& line);
  uint64_t number() const { return number_; }  // of the line that next() gave last, from 1 on

  // kInvalidArgument: "NAME line 7: what".
  base::Error wrong(std::string_view what) const;

 private:
  std::istream& in_;
  const std::string name_;
  std::vector<char> buffer_;
  uint64_t number_ = 0;
};

}  // namespace bulkhead::apps
