#include "chat/output/tool_schemas.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

namespace bulkhead::chat {
namespace {

ToolSchemas schemas(const std::string& properties, const std::string& more = "") {
  return ToolSchemas(boost::json::parse(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{)" +
      properties + "}" + more + "}}}]"));
}

std::string typed(const std::string& schema, std::string_view text, const std::string& more = "") {
  return typed_value(text, schemas(R"("a":)" + schema, more).types_of("f", "a"));
}

// C120
TEST(TypedValue, FollowsTheTypeThatTheSchemaStates) {
  struct Row {
    const char* type;
    const char* text;
    const char* json;
  };
  const Row rows[] = {
      {"integer", "40", "40"},
      {"integer", "1.0", "1.0"},
      {"integer", "1e5", "1e5"},
      {"integer", "001", R"("001")"},
      {"integer", "0x10", R"("0x10")"},
      {"integer", "many", R"("many")"},
      {"number", "NaN", R"("NaN")"},
      {"number", " -2.5\n", "-2.5"},
      {"boolean", "true", "true"},
      {"boolean", "True", R"("True")"},
      {"null", "null", "null"},
      {"array", "[1]", "[1]"},
      {"object", R"({"a":1})", R"({"a":1})"},
      {"array", "[1,", R"("[1,")"},
      {"string", "40", R"("40")"},
      {"string", "true", R"("true")"},
      {"string", "null", R"("null")"},
      {"string", "[1]", R"("[1]")"},
      {"string", " a\n\"b\"\\", R"(" a\n\"b\"\\")"},
      {"string", "", R"("")"},
      {"integer", "", R"("")"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(typed(std::string(R"({"type":")") + row.type + "\"}", row.text), row.json)
        << row.type << " " << row.text;
  }
}

TEST(TypedValue, IsTextWhereTheSchemaAllowsTextAndTheValueIsNothingElseThatItAllows) {
  EXPECT_EQ(typed(R"({"type":["string","null"]})", "null"), "null");
  EXPECT_EQ(typed(R"({"type":["string","null"]})", "12"), R"("12")");
  EXPECT_EQ(typed(R"({"type":["string","integer"]})", "12"), "12");
  EXPECT_EQ(typed(R"({"anyOf":[{"type":"string"},{"type":"array"}]})", "[1]"), "[1]");
  EXPECT_EQ(typed(R"({"anyOf":[{"type":"string"},{"type":"array"}]})", "{}"), R"("{}")");
  EXPECT_EQ(typed(R"({"enum":["1","2"]})", "1"), R"("1")");
  EXPECT_EQ(typed(R"({"enum":[1,2]})", "1"), "1");
  EXPECT_EQ(typed(R"({"const":"7"})", "7"), R"("7")");
  EXPECT_EQ(typed(R"({"$ref":"#/$defs/t"})", "7", R"(,"$defs":{"t":{"type":"string"}})"), R"("7")");
}

TEST(TypedValue, IsTheJsonThatItIsWhereNothingSaysMore) {
  EXPECT_EQ(typed("{}", "7"), "7");
  EXPECT_EQ(typed("{}", "seven"), R"("seven")");
  EXPECT_EQ(typed_value("[1, 2]", 0), "[1, 2]");
}

TEST(ToolSchemas, LookIntoAnySchemaAndEnd) {
  EXPECT_EQ(typed(R"({"$ref":"#/properties/a"})", "7"), "7");  // refers to itself
  EXPECT_EQ(typed(R"({"$ref":"#/nowhere/at/all"})", "7"), "7");
  EXPECT_EQ(typed(R"({"$ref":7,"anyOf":{},"enum":7})", "7"), "7");
  EXPECT_EQ(typed(R"({"type":7})", "7"), "7");
  EXPECT_EQ(typed("true", "7"), "7");
  const std::string doubling = R"({"anyOf":[{"$ref":"#/properties/a"},{"$ref":"#/properties/a"}]})";
  EXPECT_EQ(typed(doubling, "7"), "7");
  EXPECT_FALSE(ToolSchemas(boost::json::value(7)).has("f"));
  EXPECT_FALSE(
      ToolSchemas(boost::json::parse(R"([7,{"function":7},{"function":{"name":7}}])")).has("f"));
  EXPECT_TRUE(ToolSchemas(boost::json::parse(R"([{"function":{"name":"f"}}])")).has("f"));
}

}  // namespace
}  // namespace bulkhead::chat
