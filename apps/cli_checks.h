// What several commands check of their options.
//
// Threads: main thread.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "number.h"
#include "serve/config/settings.h"

namespace bulkhead::apps {

// One of a few names; `chosen` receives what the name stands for.
template <typename T>
void add_choice(CLI::App* app, const std::string& name, T& chosen,
                const std::map<std::string, T>& choices, const std::string& help) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& [spelling, value] : choices) names.push_back(spelling);
  app->add_option_function<std::string>(
         name, [&chosen, choices](const std::string& text) { chosen = choices.at(text); }, help)
      ->check(CLI::IsMember(names));
}

// CLI11 check: a size such as 512M or 2G, not below what serve's own size options take; `bytes`
// receives it.
inline CLI::Option* add_size(CLI::App* app, const std::string& name, uint64_t& bytes,
                             const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [&bytes, name](const std::string& text) {
            const base::Result<uint64_t> parsed = serve::parse_size(text);
            if (!parsed.ok()) throw CLI::ValidationError(name, parsed.error().message);
            bytes = *parsed;
          },
          help)
      ->type_name("SIZE");
}

// Which server, and with whose key.
template <typename Options>
void add_server(CLI::App* app, Options& options) {
  app->add_option("--url", options.url, "Address of the server")->capture_default_str();
  app->add_option("--api-key", options.api_key, "Key, where the server asks for one")
      ->envname("BULKHEAD_API_KEY")
      ->type_name("KEY");
}

// CLI11 check: a number in a range. CLI::Range lets through what is no number ("nan"), for nothing
// is less or more than that.
inline CLI::Validator in_range(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        const base::Result<double> parsed = parse_number(text, low, high);
        return parsed.ok() ? std::string() : parsed.error().message;
      },
      fmt::format("FLOAT in [{:g} - {:g}]", low, high));
}

}  // namespace bulkhead::apps
