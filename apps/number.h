// Numbers of the command line.
//
// Threads: pure functions. Invariant: what is returned is finite and in its range.
#pragma once

#include <string>

#include "base/result.h"

namespace bulkhead::apps {

// A decimal number; refused is what is none ("nan", "inf", "2x") or not in low..high.
base::Result<double> parse_number(const std::string& text, double low, double high);

}  // namespace bulkhead::apps
