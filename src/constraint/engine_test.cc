#include "constraint/engine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <boost/json/parse.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>

#include "constraint/schema/json.h"
#include "constraint/schema/validator.h"
#include "constraint/testing/small_vocabulary.h"

namespace bulkhead::constraint {
namespace {

using testing::is_set;
using testing::kCallToken;
using testing::kEndToken;
using testing::kKeyToken;
using testing::kThinkToken;
using testing::random_walk;
using testing::small_vocabulary;
using testing::Walk;
using wire::ConstraintSpec;
using Shared = std::shared_ptr<const wire::Constraint>;

// Compiling needs the stack that the compiler gives it.
void on_compile_stack(const std::function<void()>& task) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kCompileStackBytes);
  pthread_t thread;
  const auto run = [](void* context) -> void* {
    (*static_cast<const std::function<void()>*>(context))();
    return nullptr;
  };
  ASSERT_EQ(
      pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&task))),
      0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() {
    auto engine = Engine::create(small_vocabulary(), nullptr);
    EXPECT_TRUE(engine.ok());
    engine_ = std::move(engine).value();
  }

  base::Result<Shared> compile(const ConstraintSpec& spec) {
    base::Result<Shared> result = Shared();
    on_compile_stack([&] { result = engine_->compile(spec); });
    return result;
  }
  base::Result<Shared> compile(const std::string& schema) {
    ConstraintSpec spec;
    spec.json_schema = schema;
    return compile(spec);
  }
  // The state after `text`, taken byte by byte; null when it is not allowed.
  std::unique_ptr<wire::ConstraintState> after(const Shared& constraint, std::string_view text) {
    auto state = constraint->start();
    for (const char c : text) {
      if (!state->accept(static_cast<unsigned char>(c))) return nullptr;
    }
    return state;
  }
  bool allows(const Shared& constraint, std::string_view text) {
    const auto state = after(constraint, text);
    return state != nullptr && state->can_stop();
  }
  std::vector<uint32_t> mask(wire::ConstraintState& state) {
    std::vector<uint32_t> words(wire::mask_words(static_cast<size_t>(vocabulary_.width)));
    state.fill_mask(words);
    return words;
  }

  const Vocabulary vocabulary_ = small_vocabulary();
  std::unique_ptr<Engine> engine_;
};

// Walks through the mask until some answers were complete, and holds each against the schema.
void walk_schema(const Shared& constraint, const Vocabulary& vocabulary, const std::string& schema,
                 int walks, int& complete) {
  const auto validator = SchemaValidator::create(boost::json::parse(schema));
  ASSERT_TRUE(validator.ok()) << schema;
  for (int seed = 0; seed < walks; ++seed) {
    const auto state = constraint->start();
    const Walk walk = random_walk(*state, vocabulary, static_cast<uint64_t>(seed), 400, 0.5);
    ASSERT_FALSE(walk.stuck) << schema << "\n" << walk.text;
    if (!walk.complete) continue;
    ++complete;
    const auto value = parse_json(walk.text, 1 << 20);
    ASSERT_TRUE(value.ok()) << schema << "\n" << walk.text << "\n" << value.error().message;
    const auto verdict = validator->validate(*value);
    ASSERT_TRUE(verdict.ok()) << schema << "\n" << walk.text;
    ASSERT_FALSE(verdict->has_value()) << schema << "\n"
                                       << walk.text << "\n"
                                       << (*verdict)->place << " " << (*verdict)->message;
  }
}

TEST_F(EngineTest, AnyObjectIsJson) {
  ConstraintSpec spec;
  spec.json_object = true;
  const auto constraint = compile(spec);
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  EXPECT_TRUE(allows(*constraint, R"({"a": [1, 2.5e3, "x\n\u00e9", {"b": null}], "c": true})"));
  EXPECT_TRUE(allows(*constraint, "{}"));
  EXPECT_FALSE(allows(*constraint, "[1]"));
  EXPECT_FALSE(allows(*constraint, R"({"a": 01})"));
  EXPECT_FALSE(allows(*constraint, R"({"a": 1)"));
  int complete = 0;
  walk_schema(*constraint, vocabulary_, R"({"type":"object"})", 100, complete);
  EXPECT_GT(complete, 30);
}

// One schema a line.
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> own_schemas() {
  const char* source = std::getenv("BULKHEAD_SOURCE_DIR");
  return lines_of(std::string(source == nullptr ? "." : source) +
                  "/src/constraint/testing/schemas.jsonl");
}

TEST_F(EngineTest, EveryRandomAnswerIsValidByItsSchema) {
  const std::vector<std::string> schemas = own_schemas();
  ASSERT_FALSE(schemas.empty()) << "run by ctest, or set BULKHEAD_SOURCE_DIR";
  for (const std::string& schema : schemas) {
    const auto constraint = compile(schema);
    ASSERT_TRUE(constraint.ok()) << schema << ": " << constraint.error().message;
    int complete = 0;
    walk_schema(*constraint, vocabulary_, schema, 60, complete);
    EXPECT_GT(complete, 5) << schema;
  }
}

TEST_F(EngineTest, EveryRandomAnswerToTheSchemasOfWalleIsValid) {
  const char* shared = std::getenv("BULKHEAD_SHARED");
  const std::string folder = std::string(shared == nullptr ? "" : shared) +
                             "/data/eval/json-schema/walle/validator_cases/";
  int schemas = 0;
  int refused = 0;
  int complete = 0;
  for (const char* suite :
       {"TestAdditionalProperties", "TestAnyOf", "TestBasicTypes", "TestDefs", "TestDescription",
        "TestEnforcerCases", "TestID", "TestKeywordsValidation", "TestNestedDefsDepth",
        "TestNumberFormat", "TestRangeConstraints", "TestRefInProperties", "TestReferences",
        "TestRequired", "TestSingleTypeInArray", "TestTypeLocation"}) {
    for (const std::string& line : lines_of(folder + suite + "/valid.jsonl")) {
      ++schemas;
      const auto constraint = compile(line);
      if (!constraint.ok()) {
        ++refused;
        std::cout << "refused: " << constraint.error().message << ": " << line.substr(0, 200)
                  << "\n";
        continue;
      }
      walk_schema(*constraint, vocabulary_, line, 6, complete);
    }
  }
  if (schemas == 0) GTEST_SKIP() << "no walle schemas";
  std::cout << schemas << " schemas, " << refused << " refused, " << complete << " answers\n";
  EXPECT_EQ(schemas, 213);
  EXPECT_EQ(refused, 1);  // a string of 999999999999 characters
  EXPECT_GT(complete, 400);
}

TEST_F(EngineTest, ControlTokensAreNeverText) {
  ConstraintSpec spec;
  spec.json_object = true;
  const auto constraint = compile(spec);
  ASSERT_TRUE(constraint.ok());
  const auto state = after(*constraint, R"({"a": "<|ca)");
  ASSERT_NE(state, nullptr);
  const auto words = mask(*state);
  EXPECT_TRUE(is_set(words, 'x'));
  for (const wire::TokenId id : {kEndToken, kCallToken, kThinkToken, kKeyToken, kKeyToken + 3}) {
    EXPECT_FALSE(is_set(words, id)) << id;
  }
  for (auto id = static_cast<wire::TokenId>(vocabulary_.tokens.size()); id < vocabulary_.width;
       ++id) {
    EXPECT_FALSE(is_set(words, id)) << id;
  }
}

TEST_F(EngineTest, ACompleteAnswerAllowsNothingButItsEnd) {
  const auto constraint = compile(R"({"type":"boolean"})");
  ASSERT_TRUE(constraint.ok());
  const auto state = after(*constraint, "true");
  ASSERT_NE(state, nullptr);
  EXPECT_TRUE(state->can_stop());
  for (const uint32_t word : mask(*state)) EXPECT_EQ(word, 0u);
}

ConstraintSpec tool_spec() {
  ConstraintSpec spec;
  wire::ToolCallsGrammar& calls = spec.tool_calls.emplace();
  calls.section_begin = "<|call|>";
  calls.section_end = "</s>";
  calls.separator = ",";
  calls.tools = {
      {"f:", "(", R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})",
       wire::ArgumentStyle::kJson, ")"},
      {"g(", "", "", wire::ArgumentStyle::kJson, ")"}};
  return spec;
}

TEST_F(EngineTest, ToolCallsAreSpelledAsTheModelSpellsThem) {
  const auto constraint = compile(tool_spec());
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  const auto take = [&](bool token, std::string_view rest) {
    auto state = (*constraint)->start();
    if (token && !state->accept(kCallToken)) return false;
    for (const char c : rest) {
      if (!state->accept(static_cast<unsigned char>(c))) return false;
    }
    return state->can_stop();
  };
  EXPECT_TRUE(take(true, R"(f:12({"a": 3})</s>)"));
  EXPECT_TRUE(take(true, R"(f:0({"a": 3}),g({"x": []}),g({})</s>)"));
  EXPECT_FALSE(take(true, R"(f:0({"b": 3})</s>)"));
  EXPECT_FALSE(take(true, R"(f({"a": 3})</s>)"));
  EXPECT_FALSE(take(true, "</s>"));
  // The control token, not its letters.
  EXPECT_FALSE(take(false, R"(<|call|>g({})</s>)"));
}

TEST_F(EngineTest, ArgumentsInMarkupAreSpelledWithItsTokens) {
  ConstraintSpec spec;
  wire::ToolCallsGrammar& calls = spec.tool_calls.emplace();
  calls.tools = {
      {"<|call|>f", "",
       R"({"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]})",
       wire::ArgumentStyle::kGlmXml, "</f>"}};
  const auto constraint = compile(spec);
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  ASSERT_EQ(vocabulary_.bytes(kKeyToken), "<arg_key>");
  const auto state = (*constraint)->start();
  const auto take = [&](wire::TokenId token) {
    ASSERT_TRUE(is_set(mask(*state), token)) << token;
    ASSERT_TRUE(state->accept(token));
  };
  take(kCallToken);
  take('f');
  take(kKeyToken);
  take('a');
  take(kKeyToken + 1);
  take(kKeyToken + 2);
  for (const char c : std::string_view("a\tb")) take(c);  // a text, not JSON
  take(kKeyToken + 3);
  for (const char c : std::string_view("</f>")) take(c);
  EXPECT_TRUE(state->can_stop());
}

TEST_F(EngineTest, OneCallOnlyWhereCallsAreNotParallel) {
  ConstraintSpec spec = tool_spec();
  spec.tool_calls->parallel = false;
  const auto constraint = compile(spec);
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  auto state = (*constraint)->start();
  ASSERT_TRUE(state->accept(kCallToken));
  for (const char c : std::string_view("g({})")) {
    ASSERT_TRUE(state->accept(static_cast<unsigned char>(c)));
  }
  EXPECT_FALSE(is_set(mask(*state), ','));
  EXPECT_TRUE(is_set(mask(*state), '<'));
}

// C131
TEST_F(EngineTest, TextBeforeCallsIsFreeAndCallsMayBeLeftOut) {
  ConstraintSpec spec = tool_spec();
  spec.tool_calls->text_before = true;
  spec.tool_calls->required = false;
  const auto constraint = compile(spec);
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  const auto state = after(*constraint, "let me see");
  ASSERT_NE(state, nullptr);
  EXPECT_TRUE(state->can_stop());
  EXPECT_FALSE(is_set(mask(*state), kEndToken));  // a stop id, which goes by can_stop()
  ASSERT_TRUE(state->accept(kCallToken));
  EXPECT_FALSE(state->can_stop());
  EXPECT_FALSE(is_set(mask(*state), 'x'));
  EXPECT_TRUE(is_set(mask(*state), 'g'));
}

TEST_F(EngineTest, ReasoningIsFreeUntilItsEndHoweverThatIsSplit) {
  ConstraintSpec spec;
  spec.json_schema = R"({"type":"boolean"})";
  spec.free_until = "</think>";
  const auto constraint = compile(spec);
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  auto state = (*constraint)->start();
  for (const char c : std::string_view("true </thi</thin")) {
    ASSERT_TRUE(state->accept(static_cast<unsigned char>(c)));
  }
  EXPECT_FALSE(state->can_stop());
  // "k>x" would end the reasoning and go on in the same token.
  const wire::TokenId running_on = 256 + 24;
  ASSERT_EQ(vocabulary_.bytes(running_on), "k>x");
  EXPECT_FALSE(is_set(mask(*state), running_on));
  ASSERT_TRUE(state->accept('k'));
  EXPECT_TRUE(is_set(mask(*state), '>'));
  ASSERT_TRUE(state->accept('>'));
  EXPECT_FALSE(is_set(mask(*state), 'x'));
  for (const char c : std::string_view("\n\nfalse")) {
    ASSERT_TRUE(state->accept(static_cast<unsigned char>(c)));
  }
  EXPECT_TRUE(state->can_stop());
  const auto by_token = (*constraint)->start();
  ASSERT_TRUE(by_token->accept(kThinkToken));
  EXPECT_TRUE(is_set(mask(*by_token), 't'));
}

TEST_F(EngineTest, AStateIsAFunctionOfItsTokens) {
  const auto constraint = compile(
      R"({"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}}})");
  ASSERT_TRUE(constraint.ok());
  const auto state = (*constraint)->start();
  const Walk walk = random_walk(*state, vocabulary_, 5, 60, 0.1);
  const auto replayed = (*constraint)->start();
  for (const wire::TokenId token : walk.tokens) ASSERT_TRUE(replayed->accept(token));
  EXPECT_EQ(replayed->accepted(), state->accepted());
  EXPECT_EQ(mask(*replayed), mask(*state));
  EXPECT_EQ(replayed->can_stop(), state->can_stop());
}

std::string nested(int depth, const std::string& open, const std::string& core,
                   const std::string& close) {
  std::string out;
  for (int i = 0; i < depth; ++i) out += open;
  out += core;
  for (int i = 0; i < depth; ++i) out += close;
  return out;
}

// C145; GHSA-7rgv-gqhr-fxg3, GHSA-rwxx-mrjm-wc2m
TEST_F(EngineTest, HostileSchemasAreRefusedByNameAndNothingElseHappens) {
  std::string huge_enum = R"({"enum":[0)";
  for (int i = 1; i < 5000; ++i) huge_enum += "," + std::to_string(i);
  huge_enum += "]}";
  std::string doubling = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 300; ++i) {
    const std::string next = fmt::format(R"({{"$ref":"#/$defs/d{}"}})", i + 1);
    doubling += fmt::format(R"("d{0}":{{"type":"array","prefixItems":[{1},{1}]}},)", i, next);
  }
  doubling += R"("d300":{"type":"null"}}})";
  const std::pair<const char*, std::string> cases[] = {
      {"bytes; the limit",
       R"({"type":"string","pattern":")" + nested(30000, "(", "a", ")") + "\"}"},
      {"groups", R"({"type":"string","pattern":")" + nested(400, "(", "a", ")") + "\"}"},
      {"multiplied out", R"x({"type":"string","pattern":"((((a{100}){100}){100}){100})"})x"},
      {"repeats", R"x({"type":"string","pattern":"(x{1,999999999})"})x"},
      {"nested deeper", nested(20000, R"({"items":)", "{}", "}")},
      {"nested deeper", nested(20000, "[", "", "]")},
      {"may list at most", huge_enum},
      {"limit is", doubling},
      {"may be at most", R"({"type":"array","minItems":2000000000,"items":{}})"},
      {"may be at most", R"({"type":"array","maxItems":2000000000,"items":{}})"},
      {"may be at most", R"({"type":"string","minLength":1e300})"},
      {"infinite recursion", R"({"$ref":"#"})"},
      {"infinite recursion", R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})"},
      {"not valid JSON", "{"},
      {"bytes; the limit", "\"" + std::string(300000, 'x') + "\""},
      {"cannot be enforced", R"({"not":{}})"},
      {"allOf", R"({"allOf":[{"type":"string"},{"minLength":3}]})"},
      {"look-around", R"({"type":"string","pattern":"(?=a)b"})"},
      {"is not a count", R"({"type":"string","pattern":"^a{0,03}$"})"},
      {"is not a count", R"({"type":"string","pattern":"^a{,3}$"})"},
      {"is not a count", R"({"type":"string","pattern":"^a{b}$"})"},
      {"object or a boolean", "3"},
      {"false", "false"},
  };
  for (const auto& [expected, schema] : cases) {
    const auto result = compile(schema);
    ASSERT_FALSE(result.ok()) << schema.substr(0, 100);
    EXPECT_NE(result.error().message.find(expected), std::string::npos)
        << schema.substr(0, 100) << ": " << result.error().message;
    EXPECT_EQ(result.error().field, "schema");
  }
}

// C146
// What the limits let through must compile in seconds; the figures go to the log.
TEST_F(EngineTest, TheLargestSchemasThatPassTheLimitsCompile) {
  std::string wide = R"({"type":"object","properties":{)";
  for (size_t i = 0; i < 120; ++i) {
    wide += (i == 0 ? "\"" : ",\"") + std::string("property_") + std::to_string(i) +
            R"(":{"type":"string"})";
  }
  wide += "}}";
  std::string many = R"({"enum":["value_0")";
  for (int i = 1; i < 1000; ++i) many += ",\"value_" + std::to_string(i) + "\"";
  many += "]}";
  const std::pair<const char*, std::string> cases[] = {
      {"wide object", wide},
      {"large enum", many},
      {"deep arrays", nested(28, R"({"type":"array","items":)", R"({"type":"string"})", "}")},
      {"deep objects",
       nested(28, R"({"type":"object","properties":{"a":)", R"({"type":"string"})", "}}")},
      {"many items",
       R"({"type":"array","minItems":900,"maxItems":1000,"items":{"type":"integer"}})"},
      {"long string", R"({"type":"string","minLength":9000,"maxLength":10000})"},
      {"pattern", R"({"type":"string","pattern":"^([a-z]{1,8}:[0-9a-f]{1,8}){1,7}$"})"},
      {"alternation", R"({"type":"string","pattern":"^(((a|b|c|d)*e|f)*(g|h)*)*$"})"},
  };
  for (const auto& [name, schema] : cases) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = compile(schema);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ASSERT_TRUE(result.ok()) << name << ": " << result.error().message;
    const auto state = (*result)->start();
    const auto walk_begin = std::chrono::steady_clock::now();
    const Walk walk = random_walk(*state, vocabulary_, 1, 300, 0.1);
    const double walk_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - walk_begin).count();
    EXPECT_FALSE(walk.stuck) << name;
    std::cout << name << ": " << seconds << " s, " << ((*result)->bytes() >> 10) << " KiB, "
              << 1e6 * walk_seconds / static_cast<double>(walk.tokens.size()) << " us a token\n";
  }
}

// C144
TEST_F(EngineTest, PatternsOfEveryBadKindAreRefusedOrBounded) {
  for (const char* pattern :
       {"foo**", "(", ")", "[", "a{1000000}", "(?<=x)*", "(?<!x)y", "(?=x)", "(?!x)y", "(a)\\\\1",
        "\\\\k<n>", "*a", "a{3,2}", "[z-a]", "(?i)a", "a++", "(?P<n>a)", "\\\\p{Nonsense}"}) {
    const auto result = compile(std::string(R"({"type":"string","pattern":")") + pattern + "\"}");
    EXPECT_FALSE(result.ok()) << pattern;
  }
  for (const char* pattern :
       {"(a|a)*b", "(a*)*b", "^(\\\\w+\\\\s?)*$", "((x?){16}){16}", ".*.*.*.*=.*"}) {
    const auto constraint =
        compile(std::string(R"({"type":"string","pattern":")") + pattern + "\"}");
    if (!constraint.ok()) continue;
    const auto state = (*constraint)->start();
    EXPECT_FALSE(random_walk(*state, vocabulary_, 3, 200, 0.05).stuck) << pattern;
  }
}

TEST_F(EngineTest, ABadToolSchemaIsNamedByItsTool) {
  ConstraintSpec spec = tool_spec();
  spec.tool_calls->tools[1].schema = R"({"type":"object","properties":{"x":{"type":"strng"}}})";
  const auto result = compile(spec);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().field, "tools[1]");
  EXPECT_NE(result.error().message.find("/properties/x/type"), std::string::npos);
}

}  // namespace
}  // namespace bulkhead::constraint
