#include "chat/tool_declaration.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>

namespace bulkhead::chat {
namespace {

struct Row {
  const char* what;
  const char* tools;
  const char* functions;  // null: the form cannot say it
};

// What the checkpoint's own code makes of these tools.
const Row kRows[] = {
    {"no parameters", R"j([{"type": "function", "function": {"name": "ping"}}])j",
     R"ts(type ping = (_: {}) => any;
)ts"},
    {"empty object",
     R"j([{"type": "function", "function": {"name": "ping", "parameters": {},
"description": "Answers."}}])j",
     R"ts(// Answers.
type ping = (_: {}) => any;
)ts"},
    {"order and optional",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"b": {"type": "string"}, "a": {"type": "integer"}, "d": {"type": "boolean"},
"c": {"type": "number"}}, "required": ["d", "b"]}}}])j",
     R"ts(type f = (_: {
  b: string,
  d: boolean,
  a?: number,
  c?: number
}) => any;
)ts"},
    {"comments and limits",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"q": {"type": "string", "description": "What to find\n\nin words",
"maxLength": 7, "minLength": 1, "pattern": "^a+$"}, "n": {"type": "integer", "minimum": 1,
"maximum": 7, "default": 3}, "x": {"type": "number", "minimum": 0.5, "maximum": 1e+20}},
"required": ["q"]}, "description": "Searches.\n\nTwice."}}])j",
     R"ts(// Searches.

// Twice.
type f = (_: {
  // What to find

  // in words
  // maxLength: 7, minLength: 1, pattern: ^a+$
  q: string,
  // maximum: 7, minimum: 1
  // Default: 3
  n?: number,
  // maximum: 1e+20, minimum: 0.5
  x?: number
}) => any;
)ts"},
    {"enum",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"u": {"type": "string", "enum": ["c", "f"]}, "v": {"enum": [1, 2.5, null,
true, "x"]}, "w": {"type": ["string", "null"], "enum": ["a", null]}}}}}])j",
     R"ts(type f = (_: {
  u?: "c" | "f",
  v?: 1 | 2.5 | None | True | "x",
  w?: "a" | None
}) => any;
)ts"},
    {"arrays",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"l": {"type": "array", "items": {"type": "string"}, "minItems": 1,
"maxItems": 4}, "m": {"type": "array", "items": {"type": "object", "description": "one",
"properties": {"k": {"type": "string", "description": "deep"}}}}, "n": {"type": "array"},
"o": {"type": "array", "items": {}}}, "required": ["m"]}}}])j",
     R"ts(type f = (_: {
  m: Array<
    // one
    {
      // deep
      k?: string
    }
  >,
  // maxItems: 4, minItems: 1
  l?: Array<string>,
  n?: Array<any>,
  o?: Array<any>
}) => any;
)ts"},
    {"nested objects",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"o": {"type": "object", "properties": {"x": {"type": "number",
"description": "east"}, "y": {"type": "object", "properties": {"z": {"type": "null"}},
"required": ["z"]}}, "required": ["x"], "description": "a place",
"additionalProperties": false}}, "required": ["o"], "additionalProperties": true}}},
{"type": "function", "function": {"name": "g", "parameters": {"type": "object",
"properties": {}, "additionalProperties": {"type": "string"}}}}])j",
     R"ts(type f = (_: {
  // a place
  o: {
    // east
    x: number,
    y?: {
      z: null
    },
    [k: string]: never
  },
  [k: string]: any
}) => any;
type g = (_: {
  [k: string]: string
}) => any;
)ts"},
    {"unions",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"a": {"type": ["string", "null", "integer", "object", "array"]},
"b": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}],
"description": "either"}, "c": true, "d": false, "e": {}}}}}])j",
     R"ts(type f = (_: {
  a?: string | null | number | {} | Array<any>,
  // either
  b?: string | Array<number>,
  c?: any,
  d?: null,
  e?: any
}) => any;
)ts"},
    {"defaults",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"a": {"type": "string", "default": "x \"y\" é"}, "b": {"type": "boolean",
"default": false}, "c": {"type": "array", "default": [1, "a", {"k": null}]},
"d": {"type": "number", "default": 1.0}, "e": {"type": "string", "default": null}}}}}])j",
     R"ts(type f = (_: {
  // Default: "x \"y\" é"
  a?: string,
  // Default: False
  b?: boolean,
  // Default: [1, "a", {"k": null}]
  c?: Array<any>,
  // Default: 1.0
  d?: number,
  e?: string
}) => any;
)ts"},
    {"definitions",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"p": {"$ref": "#/$defs/Person"}, "ps": {"type": "array",
"items": {"$ref": "#/$defs/Person"}}}, "required": ["p"],
"$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string",
"description": "full"}, "boss": {"$ref": "#/$defs/Person"}}, "required": ["name"],
"description": "Somebody\nof note"}}}, "description": "Asks."}}])j",
     R"ts(// Somebody
// of note
interface Person {
  // full
  name: string,
  boss?: Person
}
// Asks.
type f = (_: {
  p: Person,
  ps?: Array<Person>
}) => any;
)ts"},
    {"itself",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"v": {"type": "string"}, "next": {"$ref": "#", "description": "the rest"}},
"required": ["v"]}}}])j",
     R"ts(interface parameters {
  // the rest
  next?: parameters,
  v: string
}
type f = (_: parameters) => any;
)ts"},
    {"two tools and another type",
     R"j([{"type": "function", "function": {"name": "a", "parameters": {"type": "object",
"properties": {"x": {"type": "string"}}}}}, {"type": "_plugin",
"function": {"name": "no"}}, {"type": "function", "function": {"name": "b",
"description": "Second."}}])j",
     R"ts(type a = (_: {
  x?: string
}) => any;
// Second.
type b = (_: {}) => any;
)ts"},
    {"unsayable reference",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"p": {"$ref": "#/definitions/P"}}}}}])j",
     nullptr},
    {"unsayable type",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"p": {"description": "none"}}}}}])j",
     nullptr},
    {"unsayable enum",
     R"j([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
"properties": {"p": {"type": "string", "enum": [1]}}}}}])j",
     nullptr},
};

TEST(ToolDeclaration, IsWhatTheModelsOwnCodeWrites) {
  for (const Row& row : kRows) {
    const boost::json::value tools = sorted_deeply(boost::json::parse(row.tools));
    const auto text = typescript_declarations(tools.get_array());
    ASSERT_EQ(text.has_value(), row.functions != nullptr) << row.what;
    if (!text) continue;
    const std::string expected =
        std::string("# Tools\n\n## functions\nnamespace functions {\n") + row.functions + "}\n";
    EXPECT_EQ(*text, expected) << row.what;
  }
}

TEST(ToolDeclaration, IsEmptyWithoutFunctions) {
  EXPECT_EQ(typescript_declarations({}), "");
  EXPECT_EQ(typescript_declarations(boost::json::parse(R"([7, {"type": "_plugin"}])").get_array()),
            "");
}

TEST(SortedDeeply, SortsMembersAndKeepsElements) {
  const boost::json::value value =
      boost::json::parse(R"({"b": [{"z": 1, "y": 2}, 3], "a": null, "B": "x", "é": {}})");
  EXPECT_EQ(boost::json::serialize(sorted_deeply(value)),
            R"({"B":"x","a":null,"b":[{"y":2,"z":1},3],"é":{}})");
}

}  // namespace
}  // namespace bulkhead::chat
