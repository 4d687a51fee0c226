#include "constraint/schema/validator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "constraint/schema/grammar_schema.h"
#include "constraint/schema/json.h"

namespace bulkhead::constraint {
namespace {

namespace json = boost::json;

// "": valid. Otherwise what was refused, or why it could not be told.
std::string verdict(const std::string& schema, const std::string& value) {
  auto validator = SchemaValidator::create(json::parse(schema));
  if (!validator.ok()) return "schema: " + validator.error().message;
  const auto result = validator->validate(json::parse(value));
  if (!result.ok()) return "budget: " + result.error().message;
  return *result ? (*result)->place + " " + (*result)->message : "";
}

TEST(SchemaValidator, TellsTheKeywordAndThePlace) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"array",
      "items":{"type":"integer","minimum":3}}},"required":["a"],"additionalProperties":false})";
  EXPECT_EQ(verdict(schema, R"({"a":[3,4]})"), "");
  EXPECT_EQ(verdict(schema, R"({"a":[3,1]})"), "/a/1 minimum: it is less than 3");
  EXPECT_EQ(verdict(schema, "{}"), " required: \"a\" is missing");
  EXPECT_EQ(verdict(schema, R"({"a":[],"b/c":1})"), "/b~1c nothing is allowed here");
}

TEST(SchemaValidator, NumbersCompareByValue) {
  EXPECT_EQ(verdict(R"({"type":"integer"})", "3.0"), "");
  EXPECT_NE(verdict(R"({"type":"integer"})", "3.5"), "");
  EXPECT_EQ(verdict(R"({"const":1})", "1.0"), "");
  EXPECT_EQ(verdict(R"({"const":{"a":1,"b":2}})", R"({"b":2.0,"a":1})"), "");
  EXPECT_EQ(verdict(R"({"multipleOf":0.0001})", "0.0075"), "");
  EXPECT_NE(verdict(R"({"multipleOf":0.0001})", "0.00751"), "");
  EXPECT_NE(verdict(R"({"maximum":9007199254740992})", "9007199254740993"), "");
}

TEST(SchemaValidator, PatternsAreEcma262AndLinear) {
  EXPECT_EQ(verdict(R"({"pattern":"b+"})", "\"abc\""), "");
  EXPECT_EQ(verdict(R"({"pattern":"^\\u00e9\\cJ\\/$"})", "\"\\u00e9\\n/\""), "");
  EXPECT_EQ(verdict(R"({"pattern":"^\\s[^]\\S$"})", "\"\\u00a0\\nx\""), "");
  EXPECT_NE(verdict(R"({"pattern":"^.$"})", "\"\\u2028\""), "");
  EXPECT_NE(verdict(R"({"pattern":"^\\d$"})", "\"\\u0663\""), "");
  EXPECT_NE(verdict(R"x({"pattern":"(a*)*b"})x", "\"" + std::string(100000, 'a') + "\""), "");
  EXPECT_EQ(verdict(R"x({"pattern":"(?<year>\\d{4})"})x", "\"in 1999\""), "");
}

TEST(SchemaValidator, WhatIsNotUnderstoodIsRefusedByName) {
  EXPECT_NE(verdict(R"({"$dynamicRef":"#x"})", "1").find("$dynamicRef"), std::string::npos);
  EXPECT_NE(verdict(R"({"$ref":"http://example.com/x"})", "1").find("within"), std::string::npos);
  EXPECT_NE(verdict(R"({"$ref":"#/$defs/no"})", "1").find("nothing at"), std::string::npos);
  EXPECT_NE(verdict(R"({"items":{"$id":"x"}})", "1").find("root only"), std::string::npos);
  EXPECT_NE(verdict(R"x({"pattern":"(?!a)"})x", "1").find("look-around"), std::string::npos);
  EXPECT_NE(verdict(R"({"$schema":"http://example.com/mine"})", "1").find("dialects"),
            std::string::npos);
}

TEST(SchemaValidator, WorkAndDepthEndInAnErrorNotInAVerdict) {
  EXPECT_EQ(verdict(R"({"$ref":"#"})", "1").substr(0, 6), "budget");
  EXPECT_EQ(verdict(R"({"not":{"$ref":"#"}})", "1").substr(0, 6), "budget");
  std::string doubling = R"({"$defs":{)";
  for (int i = 0; i < 60; ++i) {
    const std::string next = fmt::format(R"({{"$ref":"#/$defs/d{}"}})", i + 1);
    doubling += fmt::format(R"("d{0}":{{"anyOf":[{1},{1}]}},)", i, next);
  }
  doubling += R"("d60":false},"$ref":"#/$defs/d0"})";
  EXPECT_EQ(verdict(doubling, "1").substr(0, 6), "budget");
  std::string many = "[0";
  for (int i = 1; i < 5000; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(verdict(R"({"uniqueItems":true})", many + "]").substr(0, 6), "budget");
}

std::string rewritten(const std::string& schema) {
  const auto result = schema_for_grammar(schema);
  return result.ok() ? json_text(*result) : result.error().field + " " + result.error().message;
}

TEST(GrammarSchema, SaysWhatTheEngineWouldAssume) {
  EXPECT_EQ(rewritten(R"({"type":"object"})"), R"({"type":"object","additionalProperties":true})");
  EXPECT_EQ(rewritten(R"({"properties":{"a":{"title":"A","default":1}}})"),
            R"({"type":"object","properties":{"a":{}},"additionalProperties":false})");
  EXPECT_EQ(rewritten(R"({"type":"array"})"), R"({"type":"array","items":true})");
  EXPECT_EQ(rewritten(R"({"minLength":2,"x-own":true})"), R"({"type":"string","minLength":2})");
  EXPECT_EQ(rewritten(R"({"type":"integer","const":3})"), R"({"enum":[3]})");
  EXPECT_EQ(rewritten(R"({"type":"string","pattern":"^[a-z]+$","maxLength":9})"),
            R"({"type":"string","pattern":"^[a-z]{1,9}$"})");
}

TEST(GrammarSchema, AlternativesThatExcludeEachOtherAreAnyOf) {
  EXPECT_EQ(rewritten(R"({"oneOf":[{"type":"integer"},{"type":"string"}]})").substr(0, 8),
            R"({"anyOf")");
  EXPECT_EQ(rewritten(R"({"oneOf":[{"type":"number"},{"type":"integer"}]})").substr(0, 8),
            R"({"oneOf")");
}

TEST(GrammarSchema, RefusesWhatWouldNotHold) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties":{"a":{"not":{}}}})", "/properties/a not cannot be enforced"},
      {R"({"$ref":"#/$defs/a","minLength":1,"$defs":{"a":{}}})", " minLength is not supported at"},
      {R"({"type":"string","enum":["a",1]})", " the value 1 that is listed"},
      {R"({"type":"object","required":["a"]})", " required names \"a\""},
      {R"({"type":"array","minLength":1})", " minLength says nothing"},
      {R"({"minLength":1,"minimum":1})", " type is missing"},
      {R"({"type":"integer","minimum":0.5})", " minimum of an integer"},
      {R"({"type":"string","minLength":3,"maxLength":2})", " minLength is greater"},
      {R"({"type":"array","uniqueItems":true})", " uniqueItems cannot"},
      {R"({"anyOf":[false]})", "/anyOf none of the alternatives"},
      {R"({"enum":[]})", " enum must list"},
      {R"({"type":"string","pattern":"^ab+$","minLength":3})", " pattern together with"},
  };
  for (const auto& [schema, message] : cases) {
    EXPECT_EQ(rewritten(schema).substr(0, std::string(message).size()), message) << schema;
  }
}

}  // namespace
}  // namespace bulkhead::constraint
