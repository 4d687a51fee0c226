#include "http/sse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SseEvent, IsOneDataLineAndAnEmptyLine) {
  EXPECT_EQ(sse_event(R"({"a":1})"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(sse_event("[DONE]"), "data: [DONE]\n\n");
}

TEST(SseEvent, KeepsALineBreakInsideTheEvent) {
  EXPECT_EQ(sse_event("a\nb"), "data: a\ndata: b\n\n");
  EXPECT_EQ(sse_event("a\r\nb\rc"), "data: a\ndata: b\ndata: c\n\n");
  SseParser parser;
  EXPECT_THAT(parser.push(sse_event("{\n}")), ElementsAre("{\n}"));
}

TEST(SseParser, GivesTheSameEventsForEverySplitOfTheStream) {
  const std::string stream =
      "\xEF\xBB\xBF: hello\n"
      "data: one\n\n"
      "event: x\r\nid: 7\r\ndata: two\r\ndata: more\r\n\r\n"
      "data:three\r\rretry: 5\r\rdata\r\rdata:\n\n: ping\n\n"
      "data:  two blanks\n\ndatax: no\n\n";
  const auto expected = ElementsAre("one", "two\nmore", "three", "", "", " two blanks");
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    for (size_t second = cut; second <= stream.size(); second += 3) {
      SseParser parser;
      std::vector<std::string> events;
      for (const auto& piece :
           {stream.substr(0, cut), stream.substr(cut, second - cut), stream.substr(second)}) {
        for (auto& event : parser.push(piece)) events.push_back(std::move(event));
      }
      ASSERT_THAT(events, expected) << "split at " << cut << " and " << second;
    }
  }
}

TEST(SseParser, WaitsForTheEmptyLineThatEndsAnEvent) {
  SseParser parser;
  EXPECT_THAT(parser.push("data: half"), IsEmpty());
  EXPECT_THAT(parser.push("\n"), IsEmpty());
  EXPECT_THAT(parser.push("\n"), ElementsAre("half"));
}

TEST(SseParser, DropsAnEventOverItsLimitAndReadsTheNext) {
  SseParser parser(10);
  EXPECT_THAT(parser.push("data: " + std::string(1000, 'x') + "\n\ndata: ok\n\n"),
              ElementsAre("ok"));
  EXPECT_EQ(parser.dropped(), 1u);
  EXPECT_THAT(parser.push("data: 123456\ndata: 123456\ndata: 1\n\ndata: 0123456789\n\n"),
              ElementsAre("0123456789"));
  EXPECT_EQ(parser.dropped(), 2u);
}

TEST(SseParser, DoesNotCountALongCommentAgainstAnEvent) {
  SseParser parser(10);
  EXPECT_THAT(parser.push(":" + std::string(1000, 'x') + "\ndata: ok\n\n"), ElementsAre("ok"));
  EXPECT_EQ(parser.dropped(), 0u);
}

}  // namespace
}  // namespace bulkhead::http
