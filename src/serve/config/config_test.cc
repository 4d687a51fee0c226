// The option table, deployment files, and what explain makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "serve/config/deployment_file.h"
#include "serve/config/explain.h"
#include "serve/config/settings.h"

namespace bulkhead::serve {
namespace {

using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

const char* no_environment(const char*) { return nullptr; }

std::string error_of(std::string_view text) {
  const auto entries = parse_deployment(text, "d.toml");
  return entries.ok() ? "" : entries.error().message;
}

// A file that is gone when the test ends.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    path_ = std::filesystem::temp_directory_path() /
            ("bulkhead-config-test-" + std::to_string(getpid()) + ".toml");
    std::ofstream(path_) << text;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

base::Result<Settings> settings_of(const std::string& text, GivenOptions flags = {},
                                   EnvironmentFn environment = no_environment) {
  const TempFile file(text);
  return collect_settings(std::move(flags), file.path(), environment);
}

GivenOption flag(std::string value) { return {{std::move(value)}, OptionSource::kFlag, "--flag"}; }

TEST(OptionTable, NamesAreFlagsAndNoTwoAreAlike) {
  std::set<std::string> names;
  for (const OptionSpec& spec : option_table()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_TRUE(spec.flag.starts_with("--")) << spec.flags;
    EXPECT_FALSE(spec.meaning.empty()) << spec.name;
  }
  EXPECT_NE(find_option("decode.kv_cache_memory"), nullptr);
  EXPECT_EQ(find_option("decode.kv-cache-memory"), nullptr);
}

TEST(OptionTable, EveryDefaultIsAValueTheOptionTakesOrIsExplained) {
  for (const OptionSpec& spec : option_table()) {
    const std::string shown = spec.show(ServeOptions{});
    if (shown.empty()) {
      EXPECT_TRUE(!spec.unset.empty() || spec.name == "model") << spec.name;
      continue;
    }
    ServeOptions options;
    const Texts values = {shown};
    EXPECT_TRUE(spec.set(values, options).ok()) << spec.name;
    EXPECT_EQ(spec.show(options), shown) << spec.name;
  }
}

TEST(OptionTable, ValuesOutsideTheBoundsAreRefusedWithThem) {
  const struct {
    const char* name;
    const char* value;
    const char* hint;
  } cases[] = {
      {"port", "65536", "0 to 65535"},     {"port", "-1", "0 to 65535"},
      {"port", "80x", "not an integer"},   {"threads", "0", "1 to 256"},
      {"page_size", "48", "16, 32, 64"},   {"isa", "sse", "ref, avx2"},
      {"placement", "remote", "shared"},   {"prefill.kv", "int3", "bf16"},
      {"kv_cache_memory", "much", "much"}, {"decode.weights", "fp7", "fp7"},
      {"model", "/nowhere", "exist"},      {"drain_timeout", "99999999999999999999", "integer"},
  };
  for (const auto& one : cases) {
    ServeOptions options;
    const Texts values = {one.value};
    const base::Status status = find_option(one.name)->set(values, options);
    ASSERT_FALSE(status.ok()) << one.name << " " << one.value;
    EXPECT_THAT(status.error().message, HasSubstr(one.hint));
  }
}

// Nothing given is the default; 0 given is a mistake.
TEST(OptionTable, ASizeBelowTheLeastIsRefusedWithIt) {
  for (const char* name :
       {"kv_cache_memory", "prefill.kv_cache_memory", "decode.kv_cache_memory"}) {
    for (const char* value : {"0", "0G", "63K"}) {
      ServeOptions options;
      const Texts values = {value};
      const base::Status status = find_option(name)->set(values, options);
      ASSERT_FALSE(status.ok()) << name << " " << value;
      EXPECT_THAT(status.error().message, HasSubstr("at least 64K"));
    }
  }
  EXPECT_EQ(*parse_size("64K"), uint64_t{64} << 10);
  EXPECT_THAT(settings_of("kv_cache_memory = 0\n").error().message,
              HasSubstr(".toml:1: kv_cache_memory: 0 is too small a size; at least 64K"));
}

TEST(OptionTable, APoolsAutomaticFormatIsThatOfBoth) {
  for (const char* name : {"prefill.kv", "decode.kv"}) {
    ServeOptions options;
    const OptionSpec* spec = find_option(name);
    const Texts fp8 = {"fp8_e4m3"};
    ASSERT_TRUE(spec->set(fp8, options).ok());
    EXPECT_EQ(spec->show(options), "fp8_e4m3");
    const Texts automatic = {"auto"};
    ASSERT_TRUE(spec->set(automatic, options).ok());
    EXPECT_FALSE(options.model.prefill.cache_format || options.model.decode.cache_format);
    EXPECT_EQ(spec->show(options), "");
    EXPECT_THAT(spec->bounds, HasSubstr("auto"));
  }
}

TEST(OptionTable, TheNearestNameIsOneAHandMayHaveMeant) {
  EXPECT_EQ(nearest_option("prot"), "port");
  EXPECT_EQ(nearest_option("decode.kv_cache_memroy"), "decode.kv_cache_memory");
  EXPECT_EQ(nearest_option("max_runing_requests"), "max_running_requests");
  EXPECT_EQ(nearest_option("drain_tmeot"), "drain_timeout");
  EXPECT_EQ(nearest_option("drain_tmt"), "") << "four edits are another word";
  EXPECT_EQ(nearest_option("worker"), "");
  EXPECT_EQ(nearest_option("kv"), "");
  EXPECT_EQ(nearest_option(std::string(100000, 'x')), "");
}

TEST(DeploymentFile, GivesEveryValueWithItsLine) {
  const auto entries = parse_deployment(
      "port = 8000\n"
      "api_key = [\"a\", \"b\"]\n"
      "\n"
      "[decode]\n"
      "kv = \"bf16\"\n"
      "kv_cache_memory = \"1G\"\n"
      "[prefill]\n"
      "kv_cache_memory = 1048576\n",
      "d.toml");
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  std::map<std::string, std::pair<Texts, int>> found;
  for (const FileEntry& entry : *entries) found[entry.name] = {entry.values, entry.line};
  const std::map<std::string, std::pair<Texts, int>> expected = {
      {"port", {{"8000"}, 1}},
      {"api_key", {{"a", "b"}, 2}},
      {"decode.kv", {{"bf16"}, 5}},
      {"decode.kv_cache_memory", {{"1G"}, 6}},
      {"prefill.kv_cache_memory", {{"1048576"}, 8}}};
  EXPECT_EQ(found, expected);
}

TEST(DeploymentFile, ErrorsNameTheLineTheKeyAndTheNearestName) {
  EXPECT_EQ(error_of("port = 1\nprot = 2\n"),
            "d.toml:2: there is no option prot; the nearest is port");
  EXPECT_EQ(error_of("[decode]\n\nkvv = \"bf16\"\n"),
            "d.toml:3: there is no option decode.kvv; the nearest is decode.kv");
  EXPECT_THAT(error_of("[server]\nport = 1\n"), HasSubstr("d.toml:1: there is no option server"));
  EXPECT_THAT(error_of("[[worker]]\naddress = \"a\"\n"),
              HasSubstr("d.toml:1: there is no option worker"));
  EXPECT_THAT(error_of("\ndecode = 3\n"), HasSubstr("d.toml:2: there is no option decode;"));
  EXPECT_EQ(error_of("answer = 42\n"),
            "d.toml:1: there is no option answer; bulkhead serve --help lists them");
}

TEST(DeploymentFile, AValueOfAnotherTypeIsRefusedWithTheTypeItShouldHave) {
  EXPECT_EQ(error_of("port = \"8000\""), "d.toml:1: port is an integer");
  EXPECT_EQ(error_of("port = 80.5"), "d.toml:1: port is an integer");
  EXPECT_EQ(error_of("port = [1]"), "d.toml:1: port is an integer");
  EXPECT_EQ(error_of("host = 3"), "d.toml:1: host is a text in quotes");
  EXPECT_EQ(error_of("disable_prefix_cache = \"yes\""),
            "d.toml:1: disable_prefix_cache is true or false");
  EXPECT_EQ(error_of("api_key = [1]"), "d.toml:1: api_key is a text or a list of texts");
  EXPECT_EQ(error_of("port = { a = 1 }"), "d.toml:1: port is an integer");
  EXPECT_THAT(error_of("kv_cache_memory = true"), HasSubstr("is a size"));
}

TEST(DeploymentFile, WhatIsNoTomlIsRefusedWithItsLine) {
  EXPECT_THAT(error_of("port = 1\nhost = \n"), HasSubstr("d.toml:2"));
  EXPECT_THAT(error_of("port = 1\nport = 2\n"), HasSubstr("d.toml:2"));
  EXPECT_THAT(error_of("\"decode.kv\" = \"bf16\"\ndecode.kv = \"bf16\"\n"), HasSubstr("already"));
  EXPECT_THAT(error_of(std::string("port = \xff\n")), HasSubstr("d.toml:1"));
  // Depth that would overflow a stack is refused before it does.
  EXPECT_NE(error_of("host = " + std::string(100000, '[')), "");
  std::string keys = "a";
  for (int i = 0; i < 100000; ++i) keys += ".a";
  EXPECT_NE(error_of(keys + " = 1\n"), "");
}

// Deep keys are what this version of toml++ recurses over; a list of addresses has as many dots.
TEST(DeploymentFile, DotsCountInKeysAlone) {
  std::string list = "decode_workers = [";
  for (int i = 0; i < 40; ++i) {
    list += "\"10.0.0." + std::to_string(i) + ":7000\", '10.1.1.1:1', ";
  }
  const auto fleet = parse_deployment(list + "] # and so on" + std::string(80, '.'), "d.toml");
  ASSERT_TRUE(fleet.ok()) << fleet.error().message;
  EXPECT_EQ(fleet->front().values.size(), 80u);
  std::string deep = "a";
  for (int i = 0; i < 140; ++i) deep += i % 2 == 0 ? ".b" : ".\"c.d\"";
  // Whatever stands in quotes before it.
  for (const char* before :
       {"", "x = {a = \"it\\\"s\", ", "x = {a = \"\"\"it\"s\"\"\"\"\", ", "x = {a = '''it's''', ",
        "x = {a = 'it\\', ", "x = '''\n'\n''' \n", "x = \"\n"}) {
    const auto refused = parse_deployment(before + deep + " = 1", "d.toml");
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("64 dots")) << before;
  }
}

TEST(DeploymentFile, AFileThatIsMissingOrEndlessIsRefused) {
  EXPECT_THAT(read_deployment_file("/nowhere/d.toml").error().message, HasSubstr("cannot be read"));
  EXPECT_THAT(read_deployment_file("/dev/zero").error().message, HasSubstr("at most"));
  EXPECT_FALSE(read_deployment_file("/").ok());
}

TEST(Settings, FlagsGoBeforeEnvironmentAndThatBeforeTheFile) {
  const EnvironmentFn environment = [](const char* name) -> const char* {
    if (std::string_view(name) == "BULKHEAD_ISA") return "avx2";
    return std::string_view(name) == "BULKHEAD_API_KEY" ? "x,y" : nullptr;
  };
  GivenOptions flags;
  flags["port"] = flag("1");
  const auto settings = settings_of("port = 2\nisa = \"ref\"\nmax_queued_requests = 9\n",
                                    std::move(flags), environment);
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->options.port, 1);
  EXPECT_EQ(settings->options.model.isa, "avx2");
  EXPECT_EQ(settings->options.model.queued_max, 9u);
  EXPECT_EQ(settings->options.api_keys, (Texts{"x", "y"}));
  EXPECT_THAT(settings->given.at("max_queued_requests").where, HasSubstr(".toml:3"));
  EXPECT_EQ(settings->given.at("isa").source, OptionSource::kEnvironment);
}

TEST(Settings, AValueOutOfBoundsInAFileIsRefusedWithItsPlace) {
  const auto settings = settings_of("\n\npage_size = 48\n");
  ASSERT_FALSE(settings.ok());
  EXPECT_THAT(settings.error().message, HasSubstr(".toml:3: page_size: 48 is not one of 16, 32"));
  EXPECT_EQ(settings.error().code, base::ErrorCode::kInvalidArgument);
}

TEST(Settings, TheExampleOfTheDocumentationSaysWhatItSays) {
  const std::filesystem::path root = BULKHEAD_SOURCE_DIR;
  const auto entries = read_deployment_file((root / "docs" / "deployment.toml").string());
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  ServeOptions options;
  for (const FileEntry& entry : *entries) {
    if (entry.name == "model") continue;  // it may not have been fetched
    EXPECT_TRUE(find_option(entry.name)->set(entry.values, options).ok()) << entry.name;
  }
  EXPECT_EQ(options.model.placement, Placement::kSplit);
  EXPECT_EQ(options.model.decode.kv_cache_bytes, uint64_t{1} << 30);
  EXPECT_EQ(options.model.prefill.kv_cache_bytes, uint64_t{512} << 20);
}

const Explanation& find(const std::vector<Explanation>& all, std::string_view name) {
  for (const Explanation& one : all) {
    if (one.spec->name == name) return one;
  }
  static const Explanation none;
  ADD_FAILURE() << "no explanation of " << name;
  return none;
}

// Several processes read one file; each takes what is its own.
TEST(Settings, AFlagThatTheRoleLeavesWithoutEffectIsRefusedAndALineOfAFileIsNot) {
  const struct {
    const char* role;
    const char* name;
    const char* value;
    const char* instead;
  } cases[] = {
      {"prefill", "prefill_workers", "a:1", "--role gateway"},
      {"decode", "decode_workers", "a:1", "--role gateway"},
      {"gateway", "listen", "127.0.0.1:0", "--role prefill, decode"},
      {"all", "listen", "127.0.0.1:0", "--role prefill, decode"},
      {"all", "heartbeat", "100", "--role gateway, prefill, decode"},
      {"gateway", "threads", "1", "--role all, prefill, decode"},
      {"decode", "chunked_prefill_size", "64", "--role all, prefill"},
      {"decode", "port", "1", "--role all, gateway"},
      {"gateway", "http_listen", "127.0.0.1:0", "--role prefill, decode"},
      {"decode", "admin_key", "k", "a worker with --http-listen"},
      {"prefill", "decode.kv_cache_memory", "1G", "--role all, decode"},
  };
  for (const auto& one : cases) {
    GivenOptions flags;
    flags["role"] = flag(one.role);
    flags[one.name] = flag(one.value);
    const auto refused = settings_of("", flags);
    ASSERT_FALSE(refused.ok()) << one.role << " " << one.name;
    EXPECT_EQ(refused.error().field, find_option(one.name)->flag);
    EXPECT_THAT(refused.error().message, HasSubstr(one.instead));
    const bool number = find_option(one.name)->type == OptionType::kInteger;
    const std::string quote = number ? "" : "\"";
    flags.erase(one.name);
    const auto passed =
        settings_of(std::string(one.name) + " = " + quote + one.value + quote, flags);
    EXPECT_TRUE(passed.ok()) << passed.error().message;
  }
  // Prefill makes the pages that decode stores.
  GivenOptions flags;
  flags["role"] = flag("prefill");
  flags["decode.kv"] = flag("fp8_e4m3");
  EXPECT_TRUE(settings_of("", flags).ok());
}

Derived derived_of(const ModelOptions& options, const char* format = "bf16") {
  model::ModelConfig config;
  config.layers = 2;
  config.kv_heads = 1;
  config.head_dim = 64;
  config.context = 4096;
  device::CpuFacts cpu;
  cpu.logical_cpus = 4;
  cpu.memory_bytes = uint64_t{8} << 30;
  Derived derived;
  model::WeightFacts weights;
  weights.bytes = uint64_t{1} << 20;
  weights.format = format;
  weights.has_int4 = weights.format == "int4";
  derived.plan = *make_plan(options, config, weights, cpu);
  derived.model_name = "tiny";
  return derived;
}

TEST(Explain, TellsEveryOptionAndWhereItsValueComesFrom) {
  GivenOptions flags;
  flags["port"] = flag("8123");
  const auto settings =
      settings_of("placement = \"split\"\n[decode]\nkv_cache_memory = \"64M\"\n", std::move(flags));
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  const auto all = explain(*settings, derived_of(settings->options.model));
  ASSERT_EQ(all.size(), option_table().size());
  EXPECT_EQ(find(all, "port").value, "8123");
  EXPECT_EQ(find(all, "port").source, "flag");
  EXPECT_EQ(find(all, "decode.kv_cache_memory").value, "64M");
  EXPECT_THAT(find(all, "decode.kv_cache_memory").where, HasSubstr(".toml:3"));
  EXPECT_EQ(find(all, "threads").value, "4");
  EXPECT_EQ(find(all, "threads").source, "derived");
  EXPECT_EQ(find(all, "context_length").value, "4096");
  EXPECT_EQ(find(all, "prefill.kv_cache_memory").source, "derived");
  EXPECT_THAT(find(all, "prefill.kv_cache_memory").why, HasSubstr("an eighth"));
  EXPECT_THAT(find(all, "kv_cache_memory").why, HasSubstr("without effect"));
  EXPECT_EQ(find(all, "host").source, "default");
  EXPECT_EQ(find(all, "decode.weights").value, "bf16");
  EXPECT_EQ(find(all, "decode.weights").why, "bf16 (as stored)");
  EXPECT_EQ(find(all, "prefill.kv").value, "bf16");
  EXPECT_EQ(find(all, "served_model_name").value, "tiny");
  EXPECT_EQ(find(all, "kv_integrity").value, "off");
  EXPECT_EQ(find(all, "prefill.kv_integrity").value, "off");
  EXPECT_EQ(find(all, "prefill.kv_integrity").why, "as kv_integrity says");
}

TEST(Explain, APoolMayWatchItsPagesInItsOwnMode) {
  const auto settings = settings_of(
      "placement = \"split\"\nkv_integrity = \"abort\"\n[decode]\nkv_integrity = \"observe\"\n");
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  const Derived derived = derived_of(settings->options.model);
  EXPECT_EQ(derived.plan->integrity, kv::integrity::Mode::kObserve);
  EXPECT_EQ(derived.plan->prefill->integrity, kv::integrity::Mode::kAbort);
  const auto all = explain(*settings, derived);
  EXPECT_EQ(find(all, "prefill.kv_integrity").value, "abort");
  EXPECT_EQ(find(all, "decode.kv_integrity").value, "observe");
  EXPECT_THAT(settings_of("kv_integrity = \"strict\"\n").error().message,
              HasSubstr("strict is not one of off, observe, abort"));
}

TEST(Explain, TellsWhichActivationsAPoolHasAndWhy) {
  const auto settings = settings_of("placement = \"split\"\n[decode]\nactivations = \"int8\"\n");
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  const auto all = explain(*settings, derived_of(settings->options.model, "int4"));
  EXPECT_EQ(find(all, "activations").value, "fp32");
  EXPECT_EQ(find(all, "activations").source, "default");
  EXPECT_EQ(find(all, "decode.activations").value, "int8");
  EXPECT_THAT(find(all, "decode.activations").where, HasSubstr(".toml:3"));
  EXPECT_EQ(find(all, "prefill.activations").value, "fp32");
  EXPECT_EQ(find(all, "prefill.activations").source, "derived");
  EXPECT_EQ(find(all, "prefill.activations").why, "as activations says");
  const auto refused = settings_of("activations = \"int4\"\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("int4 is not one of fp32, int8"));
}

TEST(Explain, TellsWhatEachRoleLeavesWithoutEffect) {
  const std::string file =
      "prefill_workers = [\"a:1\"]\n[prefill]\nkv_cache_memory = \"32M\"\n"
      "[decode]\nkv_cache_memory = \"64M\"\n";
  GivenOptions flags;
  flags["role"] = flag("decode");
  const auto settings = settings_of(file, std::move(flags));
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  ModelOptions pool;
  pool.kv_cache_bytes = uint64_t{64} << 20;
  const auto all = explain(*settings, derived_of(pool));
  for (const char* name : {"prefill_workers", "prefill.kv_cache_memory", "port", "api_key"}) {
    EXPECT_THAT(find(all, name).why, HasSubstr("without effect in this role")) << name;
  }
  for (const char* name : {"decode.kv_cache_memory", "listen", "heartbeat", "threads", "weights"}) {
    EXPECT_EQ(find(all, name).why.find("without effect"), std::string::npos) << name;
  }
  EXPECT_EQ(find(all, "decode.kv_cache_memory").value, "64M");
  EXPECT_EQ(find(all, "kv_cache_memory").value, "") << "the pool's own goes before";
}

TEST(Explain, ItsTextIsADeploymentFileThatGivesTheSame) {
  GivenOptions flags;
  flags["host"] = flag("a\"b\\c");
  flags["api_key"] = flag("geheim");
  flags["admin_key"] = flag("geheimer");
  flags["disable_prefix_cache"] = flag("true");
  flags["request_timeout"] = flag("77");
  const auto settings = settings_of("", std::move(flags));
  ASSERT_TRUE(settings.ok());
  Derived derived = derived_of(settings->options.model);
  derived.problem = "none\n[but one that breaks lines]";
  const std::string text = explanation_text(explain(*settings, derived), derived);
  EXPECT_EQ(text.find("geheim"), std::string::npos) << "keys are never shown";
  const auto again = settings_of(text);
  ASSERT_TRUE(again.ok()) << again.error().message << "\n" << text;
  EXPECT_EQ(again->options.host, "a\"b\\c");
  EXPECT_FALSE(again->options.model.prefix_cache);
  EXPECT_EQ(again->options.request_timeout.count(), 77);
  EXPECT_EQ(again->options.model.threads, 4u);
  EXPECT_TRUE(again->options.api_keys.empty());
  const auto plan = derived_of(again->options.model).plan;
  EXPECT_EQ(plan->cache_bytes, derived.plan->cache_bytes);
  EXPECT_EQ(plan->context_tokens, derived.plan->context_tokens);
}

TEST(Explain, JsonCarriesTypesAndHidesKeys) {
  GivenOptions flags;
  flags["api_key"] = flag("geheim");
  const auto settings = settings_of("", std::move(flags));
  const Derived derived{std::nullopt, "", "no model is named"};
  const std::string text = explanation_json(explain(*settings, derived), derived);
  EXPECT_EQ(text.find("geheim"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("\"name\":\"port\",\"value\":30000,\"set\":true"));
  EXPECT_THAT(text, HasSubstr("\"name\":\"api_key\",\"value\":null,\"set\":true"));
  EXPECT_THAT(text, HasSubstr("\"name\":\"disable_prefix_cache\",\"value\":false"));
  EXPECT_THAT(text, HasSubstr("\"problem\":\"no model is named\""));
}

}  // namespace
}  // namespace bulkhead::serve
