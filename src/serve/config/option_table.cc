#include "serve/config/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/units.h"

namespace bulkhead::serve {
namespace {

using Values = std::span<const std::string>;

template <typename T>
using Names = std::vector<std::pair<std::string, T>>;

// The first long flag names the option.
OptionSpec named(OptionSpec spec, OptionType type) {
  const size_t begin = spec.flags.find("--");
  spec.flag = spec.flags.substr(begin, spec.flags.find(',', begin) - begin);
  spec.name = spec.flag.substr(2);
  std::replace(spec.name.begin(), spec.name.end(), '-', '_');
  spec.type = type;
  return spec;
}

base::Error refused(const std::string& message) { return base::invalid_argument({}, message); }

// In every helper below, `at` finds the option's place in ServeOptions.

template <typename At>
OptionSpec text_option(OptionSpec spec, At at) {
  spec = named(std::move(spec), OptionType::kText);
  spec.set = [at](Values values, ServeOptions& options) -> base::Status {
    at(options) = values[0];
    return {};
  };
  spec.show = [at](const ServeOptions& options) { return at(options); };
  return spec;
}

template <typename At>
OptionSpec path_option(OptionSpec spec, At at) {
  spec = text_option(std::move(spec), at);
  spec.set = [at](Values values, ServeOptions& options) -> base::Status {
    std::error_code ignored;
    if (!std::filesystem::exists(values[0], ignored)) {
      return refused(fmt::format("{} does not exist", values[0]));
    }
    at(options) = values[0];
    return {};
  };
  return spec;
}

template <typename At>
OptionSpec list_option(OptionSpec spec, At at) {
  spec = named(std::move(spec), OptionType::kList);
  spec.set = [at](Values values, ServeOptions& options) -> base::Status {
    at(options).assign(values.begin(), values.end());
    return {};
  };
  spec.show = [at](const ServeOptions& options) {
    return fmt::format("{}", fmt::join(at(options), ","));
  };
  return spec;
}

base::Result<int64_t> parse_integer(const std::string& text, int64_t low, int64_t high) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end) {
    return refused(fmt::format("{} is not an integer", text));
  }
  if (number < low || number > high) {
    return refused(fmt::format("{} is not in {} to {}", number, low, high));
  }
  return number;
}

int64_t count_of(std::chrono::seconds time) { return time.count(); }
int64_t count_of(std::chrono::milliseconds time) { return time.count(); }
template <typename T>
int64_t count_of(T number) {
  return static_cast<int64_t>(number);
}

struct Range {
  int64_t low = 0;
  int64_t high = 0;
  bool zero_is_unset = false;
};

template <typename At>
OptionSpec integer_option(OptionSpec spec, Range range, At at) {
  spec = named(std::move(spec), OptionType::kInteger);
  spec.bounds = fmt::format("{} to {}", range.low, range.high);
  if (spec.value_name.empty()) spec.value_name = "N";
  spec.set = [at, range](Values values, ServeOptions& options) -> base::Status {
    BH_ASSIGN(const int64_t number, parse_integer(values[0], range.low, range.high));
    auto& place = at(options);
    place = static_cast<std::remove_reference_t<decltype(place)>>(number);
    return {};
  };
  spec.show = [at, range](const ServeOptions& options) {
    const int64_t number = count_of(at(options));
    return number == 0 && range.zero_is_unset ? std::string() : std::to_string(number);
  };
  return spec;
}

template <typename At>
OptionSpec size_option(OptionSpec spec, At at) {
  spec = named(std::move(spec), OptionType::kSize);
  spec.value_name = "SIZE";
  spec.set = [at](Values values, ServeOptions& options) -> base::Status {
    BH_ASSIGN(at(options), parse_size(values[0]));
    return {};
  };
  spec.show = [at](const ServeOptions& options) {
    return at(options) == 0 ? std::string() : size_text(at(options));
  };
  return spec;
}

template <typename T>
std::string joined(const Names<T>& names) {
  std::string text;
  for (const auto& [name, value] : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

template <typename T>
std::optional<T> as_optional(const T& value) {
  return value;
}
template <typename T>
std::optional<T> as_optional(const std::optional<T>& value) {
  return value;
}

// T or std::optional<T> at the place.
template <typename T, typename At>
OptionSpec choice_option(OptionSpec spec, Names<T> names, At at) {
  spec = named(std::move(spec), OptionType::kChoice);
  spec.bounds = joined(names);
  spec.set = [at, names](Values values, ServeOptions& options) -> base::Status {
    for (const auto& [name, value] : names) {
      if (name != values[0]) continue;
      at(options) = value;
      return {};
    }
    return refused(fmt::format("{} is not one of {}", values[0], joined(names)));
  };
  spec.show = [at, names](const ServeOptions& options) -> std::string {
    const std::optional<T> now = as_optional(at(options));
    for (const auto& [name, value] : names) {
      if (now && value == *now) return name;
    }
    return {};
  };
  return spec;
}

// `meaning_of_true` is what the place holds when the switch is on.
template <typename At>
OptionSpec switch_option(OptionSpec spec, bool meaning_of_true, At at) {
  spec = choice_option<bool>(std::move(spec),
                             {{"true", meaning_of_true}, {"false", !meaning_of_true}}, at);
  spec.type = OptionType::kSwitch;
  return spec;
}

template <typename At>
OptionSpec recipe_option(OptionSpec spec, At at) {
  spec = named(std::move(spec), OptionType::kText);
  spec.value_name = "RECIPE";
  spec.bounds = "auto";
  for (const model::RecipePreset& preset : model::recipe_presets()) {
    spec.bounds += ", " + std::string(preset.name);
  }
  spec.bounds += ", or like experts=int4,attention=fp8";
  spec.set = [at](Values values, ServeOptions& options) -> base::Status {
    at(options).reset();
    if (values[0] == "auto") return {};
    BH_ASSIGN(at(options), model::parse_recipe(values[0]));
    return {};
  };
  spec.show = [at](const ServeOptions& options) {
    return at(options) ? at(options)->text() : std::string();
  };
  return spec;
}

std::string presets_text() {
  std::string text;
  for (const model::RecipePreset& preset : model::recipe_presets()) {
    text += fmt::format("{} ({}), ", preset.name, preset.meaning);
  }
  return text;
}

Names<kernels::Activations> activation_formats() {
  Names<kernels::Activations> names;
  for (const auto format : {kernels::Activations::kFp32, kernels::Activations::kInt8}) {
    names.emplace_back(model::to_string(format), format);
  }
  return names;
}

Names<kv::PageFormat> cache_formats() {
  Names<kv::PageFormat> names;
  for (const kv::PageFormat format : {kv::PageFormat::kBf16, kv::PageFormat::kFp8E4m3}) {
    names.emplace_back(kv::to_string(format), format);
  }
  return names;
}

// A format, or "auto": nothing of one's own.
template <typename At>
OptionSpec cache_format_option(OptionSpec spec, At at) {
  spec = choice_option<kv::PageFormat>(std::move(spec), cache_formats(), at);
  spec.bounds = "auto, " + spec.bounds;
  spec.set = [at, set = spec.set](Values values, ServeOptions& options) -> base::Status {
    at(options).reset();
    return values[0] == "auto" ? base::Status() : set(values, options);
  };
  return spec;
}

Names<kv::integrity::Mode> integrity_modes() {
  using kv::integrity::Mode;
  return {{"off", Mode::kOff}, {"observe", Mode::kObserve}, {"abort", Mode::kAbort}};
}

template <typename Format, typename List>
Names<Format> names_of(const List& list) {
  Names<Format> names;
  for (const auto& one : list) names.emplace_back(one.name, one.format);
  return names;
}

constexpr OptionGroup kServer = OptionGroup::kServer;

void add_model(std::vector<OptionSpec>& table) {
  table.push_back(
      path_option({.flags = "model,--model,--model-path,-m",
                   .meaning = "GGUF file, or directory with config.json and safetensors",
                   .value_name = "PATH"},
                  [](auto& o) -> auto& { return o.model.model_path; }));
  table.push_back(choice_option<std::string>(
      {.flags = "--isa",
       .meaning = "Kernel path",
       .unset = "the strongest this processor has",
       .environment = "BULKHEAD_ISA"},
      {{"ref", "ref"}, {"avx2", "avx2"}, {"avx512", "avx512"}, {"amx", "amx"}},
      [](auto& o) -> auto& { return o.model.isa; }));
  table.push_back(integer_option(
      {.flags = "--threads,-t", .meaning = "Compute threads", .unset = "all logical CPUs"},
      {1, 256, true}, [](auto& o) -> auto& { return o.model.threads; }));
  table.push_back(path_option({.flags = "--chat-template",
                               .meaning = "Jinja file to use instead of the checkpoint's own",
                               .unset = "the checkpoint's own",
                               .value_name = "FILE"},
                              [](auto& o) -> auto& { return o.model.chat_template_path; }));
  table.push_back(integer_option({.flags = "--context-length,--max-model-len",
                                  .meaning = "Longest prompt plus answer of one request, in tokens",
                                  .unset = "the model's, or what the cache holds"},
                                 {16, 16 << 20, true},
                                 [](auto& o) -> auto& { return o.model.context_tokens; }));
  table.push_back(choice_option<int32_t>(
      {.flags = "--page-size,--block-size", .meaning = "Tokens per cache page"},
      {{"16", 16}, {"32", 32}, {"64", 64}, {"128", 128}},
      [](auto& o) -> auto& { return o.model.page_tokens; }));
  table.back().type = OptionType::kInteger;
  table.push_back(size_option({.flags = "--kv-cache-memory,--kv-cache-memory-bytes",
                               .meaning = "Memory for the cache in the shared placement",
                               .unset = "a quarter of what is free, at most 2 GiB"},
                              [](auto& o) -> auto& { return o.model.kv_cache_bytes; }));
  table.push_back(recipe_option({.flags = "--weights",
                                 .meaning = "Formats of the weights: " + presets_text() +
                                            "or KIND=FORMAT by commas, kinds experts, shared, "
                                            "attention, mlp, head and embedding (a table that is "
                                            "the head too has the head's)",
                                 .unset = "auto, as the checkpoint has them"},
                                [](auto& o) -> auto& { return o.model.weights; }));
  table.push_back(choice_option<kernels::Activations>(
      {.flags = "--activations",
       .meaning = "What INT4 weights are multiplied by; int8 rounds each 32 values to bytes and is "
                  "faster"},
      activation_formats(), [](auto& o) -> auto& { return o.model.activations; }));
  Names<kv::PageFormat> formats = cache_formats();
  formats.emplace_back("auto", kv::PageFormat::kBf16);
  table.push_back(choice_option<kv::PageFormat>(
      {.flags = "--kv-cache-dtype",
       .meaning = "Format of the cache; fp8_e4m3 holds about twice the tokens"},
      std::move(formats), [](auto& o) -> auto& { return o.model.cache_format; }));
  table.push_back(integer_option(
      {.flags = "--max-running-requests,--max-num-seqs", .meaning = "Requests that decode at once"},
      {1, 1024}, [](auto& o) -> auto& { return o.model.running_max; }));
  table.push_back(integer_option({.flags = "--max-queued-requests",
                                  .meaning = "Requests that may wait; one more is answered 429"},
                                 {1, 1 << 20},
                                 [](auto& o) -> auto& { return o.model.queued_max; }));
  table.push_back(
      switch_option({.flags = "--disable-prefix-cache",
                     .meaning = "Do not keep prompts' pages for requests that begin alike"},
                    false, [](auto& o) -> auto& { return o.model.prefix_cache; }));
  table.push_back(integer_option({.flags = "--chunked-prefill-size",
                                  .meaning = "Prompt tokens computed between two decode steps"},
                                 {16, 8192},
                                 [](auto& o) -> auto& { return o.model.prefill_chunk_tokens; }));
}

void add_integrity(std::vector<OptionSpec>& table) {
  table.push_back(choice_option<kv::integrity::Mode>(
      {.flags = "--kv-integrity",
       .meaning = "What happens when a cache page is not the one that a request was given: nothing "
                  "is compared, it is counted and logged, or the request ends with an error "
                  "before it reads or says anything wrong"},
      integrity_modes(), [](auto& o) -> auto& { return o.model.integrity; }));
  table.push_back(integer_option(
      {.flags = "--kv-scrub",
       .meaning = "Cached pages whose bytes are verified again in each idle round, ten a second, "
                  "where --kv-integrity is on; 0: none"},
      {0, 4096}, [](auto& o) -> auto& { return o.model.scrub_pages; }));
}

// What a pool has of its own in the split placement.
template <typename At>
void add_pool(std::vector<OptionSpec>& table, const std::string& pool, At at) {
  const std::string prefix = "--" + pool + ".";
  table.push_back(recipe_option({.flags = prefix + "weights",
                                 .meaning = fmt::format("Weight formats of the {} pool", pool),
                                 .unset = "as --weights says"},
                                [at](auto& o) -> auto& { return at(o).weights; }));
  table.push_back(choice_option<kernels::Activations>(
      {.flags = prefix + "activations",
       .meaning = fmt::format("What INT4 weights of the {} pool are multiplied by", pool),
       .unset = "as --activations says"},
      activation_formats(), [at](auto& o) -> auto& { return at(o).activations; }));
  table.push_back(cache_format_option({.flags = prefix + "kv",
                                       .meaning = fmt::format("Cache format of the {} pool", pool),
                                       .unset = "auto, as --kv-cache-dtype says"},
                                      [at](auto& o) -> auto& { return at(o).cache_format; }));
  table.push_back(size_option({.flags = prefix + "kv-cache-memory",
                               .meaning = fmt::format("Memory for the cache of the {} pool", pool),
                               .unset = "an eighth of what is free, at most 1 GiB"},
                              [at](auto& o) -> auto& { return at(o).kv_cache_bytes; }));
  table.push_back(choice_option<kv::integrity::Mode>(
      {.flags = prefix + "kv-integrity",
       .meaning = fmt::format("Page integrity of the {} pool", pool),
       .unset = "as --kv-integrity says"},
      integrity_modes(), [at](auto& o) -> auto& { return at(o).integrity; }));
}

void add_placement(std::vector<OptionSpec>& table) {
  table.push_back(choice_option<Placement>(
      {.flags = "--placement",
       .meaning = "Where prefill and decode live: shared has one copy of the weights and one page "
                  "pool, split two pools in one process with formats of their own"},
      {{"shared", Placement::kShared}, {"split", Placement::kSplit}},
      [](auto& o) -> auto& { return o.model.placement; }));
  add_pool(table, "prefill", [](auto& o) -> auto& { return o.model.prefill; });
  add_pool(table, "decode", [](auto& o) -> auto& { return o.model.decode; });
}

// A deployment of several processes.
void add_roles(std::vector<OptionSpec>& table) {
  table.push_back(choice_option<Role>(
      {.flags = "--role",
       .group = kServer,
       .meaning = "What this process is in its deployment: all of it, the gateway that serves HTTP "
                  "and has no weights, or a worker that prefills or decodes"},
      {{"all", Role::kAll},
       {"gateway", Role::kGateway},
       {"prefill", Role::kPrefill},
       {"decode", Role::kDecode}},
      [](auto& o) -> auto& { return o.roles.role; }));
  table.push_back(
      text_option({.flags = "--listen",
                   .group = kServer,
                   .meaning = "Where a worker is reached, by other workers too; keep it "
                              "on a network of the deployment alone",
                   .value_name = "ADDRESS:PORT"},
                  [](auto& o) -> auto& { return o.roles.listen; }));
  table.push_back(
      text_option({.flags = "--http-listen",
                   .group = kServer,
                   .meaning = "Where a worker answers over HTTP, for who watches over it: /health, "
                              "/metrics and, with the admin key, /v1/integrity; anything but "
                              "loopback needs a key",
                   .unset = "nowhere",
                   .value_name = "ADDRESS:PORT"},
                  [](auto& o) -> auto& { return o.roles.http_listen; }));
  table.push_back(list_option({.flags = "--prefill-workers",
                               .group = kServer,
                               .meaning = "Prefill workers of a gateway, by commas",
                               .unset = "none",
                               .value_name = "ADDRESS:PORT"},
                              [](auto& o) -> auto& { return o.roles.prefill_workers; }));
  table.push_back(list_option({.flags = "--decode-workers",
                               .group = kServer,
                               .meaning = "Decode workers of a gateway, by commas",
                               .unset = "none",
                               .value_name = "ADDRESS:PORT"},
                              [](auto& o) -> auto& { return o.roles.decode_workers; }));
  table.push_back(path_option({.flags = "--worker-key-file",
                               .group = kServer,
                               .meaning = "File with the secret that all processes of a deployment "
                                          "share, one line; needed by every role but all",
                               .unset = "none",
                               .value_name = "FILE"},
                              [](auto& o) -> auto& { return o.roles.key_file; }));
  table.push_back(integer_option(
      {.flags = "--heartbeat",
       .group = kServer,
       .meaning = "Milliseconds between signs of life of gateway and workers; who misses two is "
                  "retired, so a step has to take less",
       .value_name = "MS"},
      {50, 600000}, [](auto& o) -> auto& { return o.roles.heartbeat; }));
}

void add_server(std::vector<OptionSpec>& table) {
  table.push_back(text_option({.flags = "--host",
                               .group = kServer,
                               .meaning = "Address to listen on; anything but loopback needs a key",
                               .value_name = "ADDRESS"},
                              [](auto& o) -> auto& { return o.host; }));
  table.push_back(integer_option(
      {.flags = "--port", .group = kServer, .meaning = "Port to listen on; 0 picks a free one"},
      {0, 65535}, [](auto& o) -> auto& { return o.port; }));
  table.push_back(text_option({.flags = "--port-file",
                               .group = kServer,
                               .meaning = "File that receives the port once the server is ready",
                               .unset = "none",
                               .value_name = "FILE"},
                              [](auto& o) -> auto& { return o.port_file; }));
  table.push_back(text_option({.flags = "--served-model-name",
                               .group = kServer,
                               .meaning = "Name that /v1/models reports and requests may use",
                               .unset = "from the checkpoint",
                               .value_name = "NAME"},
                              [](auto& o) -> auto& { return o.served_model_name; }));
  table.push_back(list_option(
      {.flags = "--api-key",
       .group = kServer,
       .meaning = "Keys, one of which clients must send as a bearer token; commas between several",
       .unset = "none is needed",
       .environment = "BULKHEAD_API_KEY",
       .value_name = "KEY",
       .secret = true},
      [](auto& o) -> auto& { return o.api_keys; }));
  table.push_back(path_option(
      {.flags = "--api-key-file",
       .group = kServer,
       .meaning = "File of more keys, one a line, # for comments; SIGHUP reads it again",
       .unset = "none",
       .value_name = "FILE"},
      [](auto& o) -> auto& { return o.api_key_file; }));
  table.push_back(
      text_option({.flags = "--admin-key",
                   .group = kServer,
                   .meaning = "Key that flushes the cache, aborts anybody's requests and sees page "
                              "integrity",
                   .unset = "none",
                   .environment = "BULKHEAD_ADMIN_KEY",
                   .value_name = "KEY",
                   .secret = true},
                  [](auto& o) -> auto& { return o.admin_key; }));
  table.push_back(choice_option<bool>({.flags = "--priority-order",
                                       .group = kServer,
                                       .meaning = "Which `priority` of a request goes first"},
                                      {{"lower-first", false}, {"higher-first", true}},
                                      [](auto& o) -> auto& { return o.higher_priority_first; }));
}

void add_chat_formats(std::vector<OptionSpec>& table) {
  const std::string unset = "as its chat template says";
  table.push_back(
      choice_option<chat::ToolFormat>({.flags = "--tool-call-parser",
                                       .group = kServer,
                                       .meaning = "How the model writes tool calls",
                                       .unset = unset},
                                      names_of<chat::ToolFormat>(chat::kToolFormatNames),
                                      [](auto& o) -> auto& { return o.tool_format; }));
  table.push_back(choice_option<chat::ReasoningFormat>(
      {.flags = "--reasoning-parser",
       .group = kServer,
       .meaning = "How the model writes its reasoning",
       .unset = unset},
      names_of<chat::ReasoningFormat>(chat::kReasoningFormatNames),
      [](auto& o) -> auto& { return o.reasoning_format; }));
  using api::ReasoningField;
  table.push_back(
      choice_option<ReasoningField>({.flags = "--reasoning-field",
                                     .group = kServer,
                                     .meaning = "Name of the reasoning in answers"},
                                    {{"reasoning_content", ReasoningField::kReasoningContent},
                                     {"reasoning", ReasoningField::kReasoning},
                                     {"both", ReasoningField::kBoth}},
                                    [](auto& o) -> auto& { return o.reasoning_field; }));
}

void add_operation(std::vector<OptionSpec>& table) {
  table.push_back(integer_option({.flags = "--request-timeout",
                                  .group = kServer,
                                  .meaning = "Seconds after which a request ends with 408",
                                  .unset = "no limit"},
                                 {1, 7 * 24 * 3600, true},
                                 [](auto& o) -> auto& { return o.request_timeout; }));
  table.push_back(
      integer_option({.flags = "--drain-timeout",
                      .group = kServer,
                      .meaning = "Seconds that running requests may take to finish after SIGTERM"},
                     {0, 3600}, [](auto& o) -> auto& { return o.drain_timeout; }));
  table.push_back(
      switch_option({.flags = "--inject-faults",
                     .group = kServer,
                     .meaning = "For tests alone: let administrators damage cache pages on demand "
                                "(docs/api.md, Page integrity); only on loopback"},
                    true, [](auto& o) -> auto& { return o.model.inject_faults; }));
  table.push_back(choice_option<base::LogLevel>(
      {.flags = "--log-level", .group = kServer, .meaning = "Least severe level to log"},
      {{"debug", base::LogLevel::kDebug},
       {"info", base::LogLevel::kInfo},
       {"warning", base::LogLevel::kWarning},
       {"error", base::LogLevel::kError}},
      [](auto& o) -> auto& { return o.log_level; }));
  table.push_back(choice_option<base::LogFormat>(
      {.flags = "--log-format",
       .group = kServer,
       .meaning = "Form of the log lines on standard error"},
      {{"text", base::LogFormat::kText}, {"json", base::LogFormat::kJson}},
      [](auto& o) -> auto& { return o.log_format; }));
}

std::vector<OptionSpec> make_table() {
  std::vector<OptionSpec> table;
  table.reserve(64);
  add_model(table);
  add_integrity(table);
  add_placement(table);
  add_roles(table);
  add_server(table);
  add_chat_formats(table);
  add_operation(table);
  return table;
}

constexpr size_t kEditsMax = 3;

// Edits (insert, delete, replace) that turn one text into the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t k = 1; k <= b.size(); ++k) {
      const size_t replaced = diagonal + (a[i - 1] == b[k - 1] ? 0 : 1);
      diagonal = row[k];
      row[k] = std::min({row[k] + 1, row[k - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

base::Result<uint64_t> parse_size(const std::string& text) {
  constexpr uint64_t kLeast = 64 << 10;
  BH_ASSIGN(const uint64_t bytes, base::parse_bytes(text));
  if (bytes < kLeast) {
    return refused(fmt::format("{} is too small a size; at least {}", text, size_text(kLeast)));
  }
  return bytes;
}

std::string size_text(uint64_t bytes) {
  for (const auto& [shift, unit] : {std::pair{30, 'G'}, std::pair{20, 'M'}, std::pair{10, 'K'}}) {
    if (bytes % (uint64_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, unit);
  }
  return std::to_string(bytes);
}

const std::vector<OptionSpec>& option_table() {
  static const std::vector<OptionSpec> table = make_table();
  return table;
}

const OptionSpec* find_option(std::string_view name) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

std::string nearest_option(std::string_view name) {
  // Longer names than any option's are near none.
  name = name.substr(0, 64);
  std::string nearest;
  size_t fewest = kEditsMax + 1;
  for (const OptionSpec& spec : option_table()) {
    const size_t edits = edit_distance(name, spec.name);
    if (edits >= fewest || edits >= name.size()) continue;
    fewest = edits;
    nearest = spec.name;
  }
  return nearest;
}

}  // namespace bulkhead::serve
