// What an operator asked for, from every place that says something: flags go before environment,
// environment before the deployment file, and the rest are defaults.
//
// Threads: pure but for the file that is read. Invariant: options holds exactly what `given` names,
// and defaults besides.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/config/option_table.h"
#include "serve/options.h"

namespace bulkhead::serve {

enum class OptionSource : uint8_t { kFile, kEnvironment, kFlag };
std::string_view to_string(OptionSource source);  // "file", "environment", "flag"

struct GivenOption {
  std::vector<std::string> values;
  OptionSource source = OptionSource::kFlag;
  std::string where;  // "deployment.toml:7", "BULKHEAD_ISA", "--isa"
};

// By the option's name.
using GivenOptions = std::map<std::string, GivenOption, std::less<>>;

struct Settings {
  ServeOptions options;
  GivenOptions given;
};

// Null where the variable is not set.
using EnvironmentFn = const char* (*)(const char* name);

// `flags` holds what the command line gave; `config_path` may be empty. Errors: kInvalidArgument
// naming the place and the option; among them a flag that the role leaves without effect.
base::Result<Settings> collect_settings(GivenOptions flags, const std::string& config_path,
                                        EnvironmentFn environment);

}  // namespace bulkhead::serve
