#include "chat/output/json_cursor.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "base/rng.h"

namespace bulkhead::chat {
namespace {

JsonCursor fed(std::string_view text) {
  JsonCursor cursor;
  for (const char c : text) cursor.feed(c);
  return cursor;
}

bool is_json(std::string_view text) {
  boost::json::error_code error;
  boost::json::parse(boost::json::string_view(text.data(), text.size()), error);
  return !error;
}

TEST(JsonCursor, KnowsWholeValues) {
  for (const char* text : {"{}", "[]", "0", "-1", "12.5e-3", "\"\"", "true", "false", "null",
                           R"({"a": [1, {"b": "\u00e9\n"}], "c": {}})", " [ 1 , 2 ] ", "-0.0E+1"}) {
    EXPECT_TRUE(fed(text).complete()) << text;
    EXPECT_FALSE(fed(text).failed()) << text;
  }
  EXPECT_TRUE(fed(R"({"a": 1})").is_object());
  EXPECT_FALSE(fed(R"([{}])").is_object());
}

TEST(JsonCursor, RefusesWhatIsNoJson) {
  for (const char* text :
       {"{,}",       "[1,]",   "01",      "1.",          ".5",       "+1",    "NaN",
        "{\"a\" 1}", "{a: 1}", "\"\\x\"", "\"\\u12g4\"", "\"a\nb\"", "tru e", "{}{}",
        "]",         "{]",     "'a'",     "1 2",         "--1",      "1e",    "0x10"}) {
    const JsonCursor cursor = fed(text);
    EXPECT_TRUE(cursor.failed() || !cursor.complete()) << text;
  }
}

TEST(JsonCursor, KnowsWhereItIs) {
  EXPECT_TRUE(fed(R"({"a)").in_key());
  EXPECT_TRUE(fed(R"({"a": "b\u00)").in_string());
  EXPECT_FALSE(fed(R"({"a": "b")").in_string());
  EXPECT_TRUE(fed(R"({"a": -1)").in_number());
  EXPECT_EQ(fed(R"({"a": [{)").depth(), 3u);
  EXPECT_TRUE(fed(R"({"a":)").expects_value());
  EXPECT_TRUE(fed(R"({"a": 1 )").after_value());
}

TEST(JsonCursor, BoundsTheNesting) {
  EXPECT_FALSE(fed(std::string(256, '[')).failed());
  EXPECT_TRUE(fed(std::string(257, '[')).failed());
}

// Random texts over JSON's alphabet, and edits of valid ones.
TEST(JsonCursor, AgreesWithAnotherParserOnEdits) {
  const std::string alphabet = "{}[]\",:\\0123456789.eE+-truefalsn /u";
  const std::string seed = R"({"a":[1,-2.5e3,"x\n",true,null],"b":{"c":""}})";
  base::Rng rng(11);
  int valid = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = seed;
    const uint64_t edits = rng.below(3);
    for (uint64_t i = 0; i < edits; ++i) {
      const size_t at = rng.below(text.size());
      const char c = alphabet[rng.below(alphabet.size())];
      if (rng.below(2) == 0) {
        text[at] = c;
      } else {
        text.erase(at, 1);
      }
    }
    const bool expected = is_json(text);
    valid += expected ? 1 : 0;
    EXPECT_EQ(fed(text).complete() && !fed(text).failed(), expected) << text;
  }
  EXPECT_GT(valid, 5000);
}

}  // namespace
}  // namespace bulkhead::chat
