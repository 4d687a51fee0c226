// GPT-2's printable spelling of bytes, in which byte-level vocabularies are written down.
//
// Threads: pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bulkhead::text {

// The bytes that `spelled` stands for; nothing when a character of it spells no byte.
std::optional<std::string> bytes_from_spelling(std::string_view spelled);

}  // namespace bulkhead::text
