// Sizes, rates and durations as people read and write them.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace bulkhead::base {

// "1.5 GiB", "23.0 KiB", "17 B".
std::string format_bytes(uint64_t bytes);
// "12,345".
std::string format_count(uint64_t count);
// Accepts 4096, 16K, 16KB, 16KiB, 2G ... all binary multiples; refuses overflow and leftovers.
Result<uint64_t> parse_bytes(std::string_view text);

// a*b and a+b, or nothing when the result does not fit; for sizes that come from a file or a
// client.
bool checked_mul(uint64_t a, uint64_t b, uint64_t* out);
bool checked_add(uint64_t a, uint64_t b, uint64_t* out);

}  // namespace bulkhead::base
