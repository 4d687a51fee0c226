// Every option of a server, in one table: it feeds the command line and its --help, the deployment
// file, and `bulkhead config explain`.
//
// Threads: the table is built once and constant. Invariants: an option's name is its first long
// flag without the leading dashes, with underscores for the others, so that nobody learns two names
// ("--decode.kv-cache-memory" is decode.kv_cache_memory); what set() accepts is in the stated
// bounds; what show() says set() takes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/options.h"

namespace bulkhead::serve {

enum class OptionType : uint8_t {
  kText,
  kList,     // of texts
  kInteger,  // decimal
  kSize,     // bytes: 4096, "512M", "2GiB"
  kChoice,   // one of a few texts
  kSwitch,   // true or false; its flag stands for true
};

enum class OptionGroup : uint8_t {
  kModel,   // of every command that runs a model
  kServer,  // of serve alone
};

struct OptionSpec {
  std::string flags;  // as CLI11 takes them: "model,--model,--model-path,-m"
  OptionGroup group = OptionGroup::kModel;
  std::string meaning = {};
  std::string unset = {};        // what stands where nothing is given, if that is not a value
  std::string environment = {};  // variable that gives it where no flag does
  std::string value_name = {};   // in --help
  bool secret = false;           // never shown
  // Made by the table:
  std::string name = {};    // "decode.kv_cache_memory"
  std::string flag = {};    // "--decode.kv-cache-memory"
  std::string bounds = {};  // "16 to 8192"; "ref, avx2, avx512, amx"
  OptionType type = OptionType::kText;
  std::function<base::Status(std::span<const std::string> values, ServeOptions& options)> set = {};
  // The value in the form that set() takes; empty: nothing is set.
  std::function<std::string(const ServeOptions& options)> show = {};
};

const std::vector<OptionSpec>& option_table();

// A size as size options take it: what base::parse_bytes() takes, from 1 MiB.
base::Result<uint64_t> parse_size(const std::string& text);

// The shortest text that a size option reads as so many bytes: "512M".
std::string size_text(uint64_t bytes);

// Null: there is none of that name.
const OptionSpec* find_option(std::string_view name);
// The known name that takes the fewest edits, at most three; empty: none is so near.
std::string nearest_option(std::string_view name);

}  // namespace bulkhead::serve
