#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace bulkhead::base {
namespace {

TEST(JsonWriter, PlacesCommasBetweenMembersAndElements) {
  JsonWriter json;
  json.begin_object();
  json.key("a").value(1);
  json.key("b").begin_array().value(true).null().value("x").end_array();
  json.key("c").begin_object().end_object();
  json.end_object();
  EXPECT_EQ(json.text(), R"({"a":1,"b":[true,null,"x"],"c":{}})");
}

TEST(JsonWriter, EscapesControlCharactersAndQuotes) {
  JsonWriter json;
  json.value(std::string_view("\"\\\n\r\t\x01", 6));
  EXPECT_EQ(json.text(), R"("\"\\\n\r\t\u0001")");
}

TEST(JsonWriter, ReplacesInvalidUtf8AndKeepsValid) {
  JsonWriter json;
  json.value("caf\xC3\xA9 \xFF\xE2\x82");
  EXPECT_EQ(json.text(), "\"caf\xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonWriter, DoublesReadBackEqualAndNonFiniteIsNull) {
  JsonWriter json;
  json.begin_array().value(0.1).value(1.0).value(-2.5e-10);
  json.value(std::numeric_limits<double>::infinity()).end_array();
  EXPECT_EQ(json.text(), "[0.1,1.0,-2.5e-10,null]");
}

TEST(JsonWriter, SixtyFourBitIntegersKeepEveryDigit) {
  JsonWriter json;
  json.begin_array().value(std::numeric_limits<int64_t>::min());
  json.value(std::numeric_limits<uint64_t>::max()).end_array();
  EXPECT_EQ(json.text(), "[-9223372036854775808,18446744073709551615]");
}

}  // namespace
}  // namespace bulkhead::base
