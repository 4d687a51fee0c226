// Text as Python's `str` methods and `re` treat it, which the published scorers are written in.
//
// Threads: pure functions, total on every input. Files are UTF-8; what is none counts byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace bulkhead::apps::eval {

// str.strip(): white space of Unicode at both ends.
std::string_view stripped(std::string_view text);
// len(str): characters.
uint64_t characters(std::string_view text);
// len(re.split(r"\s+", text)): what white space leaves, empty ends included.
uint64_t split_count(std::string_view text);
// Every `from` replaced, from left to right.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// The whole file. Errors: kNotFound, kIo, kResourceExhausted beyond 256 MiB.
base::Result<std::string> read_file(const std::string& path);
// Written beside and put in place in one step. Errors: kIo.
base::Status write_file(const std::string& path, std::string_view text);
// Lines without their ends; an empty last one is none.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace bulkhead::apps::eval
