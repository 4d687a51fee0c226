#include "serve/config/settings.h"

#include <fmt/format.h>

#include <utility>

#include "serve/config/deployment_file.h"
#include "serve/config/effect.h"

namespace bulkhead::serve {
namespace {

// Lists take commas between their texts wherever they come from.
std::vector<std::string> split_list(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (const std::string& value : values) {
    size_t begin = 0;
    for (size_t end = 0; end != std::string::npos; begin = end + 1) {
      end = value.find(',', begin);
      out.push_back(value.substr(begin, end == std::string::npos ? end : end - begin));
    }
  }
  return out;
}

// A file is for several processes; a flag was meant for this one.
base::Status check_flags(const Settings& settings) {
  for (const auto& [name, given] : settings.given) {
    if (given.source != OptionSource::kFlag) continue;
    const auto instead = roles_instead(name, settings.options.roles);
    if (!instead) continue;
    const std::string& flag = find_option(name)->flag;
    return base::invalid_argument(
        flag, fmt::format("{} is for {}; in this role it is without effect", flag, *instead));
  }
  return {};
}

}  // namespace

std::string_view to_string(OptionSource source) {
  switch (source) {
    case OptionSource::kFile:
      return "file";
    case OptionSource::kEnvironment:
      return "environment";
    case OptionSource::kFlag:
      return "flag";
  }
  return "unknown";
}

base::Result<Settings> collect_settings(GivenOptions flags, const std::string& config_path,
                                        EnvironmentFn environment) {
  Settings settings;
  settings.given = std::move(flags);
  // What was there first stays.
  for (const OptionSpec& spec : option_table()) {
    if (spec.environment.empty()) continue;
    const char* value = environment(spec.environment.c_str());
    if (value == nullptr || *value == '\0') continue;
    settings.given.try_emplace(spec.name,
                               GivenOption{{value}, OptionSource::kEnvironment, spec.environment});
  }
  if (!config_path.empty()) {
    BH_ASSIGN(std::vector<FileEntry> entries, read_deployment_file(config_path));
    for (FileEntry& entry : entries) {
      settings.given.try_emplace(entry.name,
                                 GivenOption{std::move(entry.values), OptionSource::kFile,
                                             fmt::format("{}:{}", config_path, entry.line)});
    }
  }
  for (const OptionSpec& spec : option_table()) {
    const auto found = settings.given.find(spec.name);
    if (found == settings.given.end()) continue;
    GivenOption& given = found->second;
    if (spec.type == OptionType::kList) given.values = split_list(given.values);
    base::Status status = spec.set(given.values, settings.options);
    if (status.ok()) continue;
    const std::string name = given.source == OptionSource::kFile ? " " + spec.name + ":" : "";
    return base::invalid_argument(
        given.where, fmt::format("{}:{} {}", given.where, name, status.error().message));
  }
  BH_TRY(check_flags(settings));
  return settings;
}

}  // namespace bulkhead::serve
