#include "apps/bench/replay/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace bulkhead::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kMooncake =
    R"({"timestamp": 1000, "input_length": 513, "output_length": 7, "hash_ids": [0, 1]})"
    "\n"
    R"({"timestamp": 1000, "input_length": 512, "output_length": 0, "hash_ids": [4]})"
    "\n\n"
    R"({"timestamp": 3500.5, "input_length": 1, "output_length": 1, "hash_ids": [182789]})";
constexpr const char* kAzure =
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 23:59:59.5000000,374,44\r\n"
    "2023-11-17 00:00:01,0,0\r\n"
    "2023-11-17 00:00:01.25,91,16";

base::Result<Trace> read(const std::string& text, uint64_t start = 0, uint64_t count = 100) {
  std::istringstream in(text);
  return read_trace(in, "t", start, count);
}

void expect_refused(const std::string& text, const std::string& expected) {
  const base::Result<Trace> trace = read(text);
  ASSERT_FALSE(trace.ok()) << text.substr(0, 200);
  EXPECT_EQ(trace.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_THAT(trace.error().message, HasSubstr(expected));
}

TEST(Trace, MooncakeRowsHaveTimesLengthsAndBlocks) {
  const Trace trace = read(kMooncake).value();
  EXPECT_EQ(trace.kind, "mooncake");
  EXPECT_EQ(trace.block_tokens, 512);
  ASSERT_EQ(trace.rows.size(), 3u);
  EXPECT_EQ(trace.rows[0].arrival_s, 0.0);
  EXPECT_EQ(trace.rows[0].input_tokens, 513);
  EXPECT_EQ(trace.rows[0].output_tokens, 7);
  EXPECT_THAT(trace.rows[0].blocks, ElementsAre(0, 1));
  EXPECT_EQ(trace.rows[1].arrival_s, 0.0);
  EXPECT_EQ(trace.rows[2].line, 4u);
  EXPECT_DOUBLE_EQ(trace.rows[2].arrival_s, 2.5005);
}

TEST(Trace, AzureRowsHaveTimesAcrossDaysAndNoBlocks) {
  const Trace trace = read(kAzure).value();
  EXPECT_EQ(trace.kind, "azure");
  EXPECT_EQ(trace.block_tokens, 0);
  ASSERT_EQ(trace.rows.size(), 3u);
  EXPECT_EQ(trace.rows[0].input_tokens, 374);
  EXPECT_EQ(trace.rows[0].output_tokens, 44);
  EXPECT_THAT(trace.rows[0].blocks, IsEmpty());
  EXPECT_DOUBLE_EQ(trace.rows[1].arrival_s, 1.5);
  EXPECT_DOUBLE_EQ(trace.rows[2].arrival_s, 1.75);
  EXPECT_EQ(trace.rows[2].line, 4u);
}

TEST(Trace, APartBeginsAtItsOwnTime) {
  const Trace one = read(kMooncake, 1, 1).value();
  ASSERT_EQ(one.rows.size(), 1u);
  EXPECT_THAT(one.rows[0].blocks, ElementsAre(4));
  const Trace rest = read(kAzure, 1, 100).value();
  ASSERT_EQ(rest.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(rest.rows[1].arrival_s, 0.25);
}

TEST(Trace, OnlyTheRowsThatAreTakenAreJudged) {
  EXPECT_TRUE(read(std::string(kMooncake) + "\nnonsense", 0, 3).ok());
  EXPECT_TRUE(read("{nonsense}\n" + std::string(kMooncake), 1, 3).ok());
  EXPECT_FALSE(read("{nonsense}\n" + std::string(kMooncake), 0, 3).ok());
}

TEST(Trace, APartBehindTheEndIsRefused) {
  const base::Result<Trace> trace = read(kMooncake, 3, 5);
  ASSERT_FALSE(trace.ok());
  EXPECT_THAT(trace.error().message, HasSubstr("t has 3 rows, none from row 3 on"));
}

TEST(Trace, WhatIsNoTraceIsRefused) {
  for (const char* text : {"", "\n", "time,tokens\n", "[1]", "TIMESTAMP,ContextTokens\n"}) {
    expect_refused(text, "is no trace");
  }
  expect_refused("TIMESTAMP,ContextTokens,GeneratedTokens\n", "has 0 rows");
}

TEST(Trace, ABadMooncakeRowIsNamedByLineAndField) {
  const std::string good =
      R"({"timestamp": 5, "input_length": 600, "output_length": 7, "hash_ids": [0, 1]})";
  const auto with = [&good](const std::string& what, const std::string& instead) {
    std::string line = good;
    return good + "\n" + line.replace(line.find(what), what.size(), instead);
  };
  expect_refused(good + "\n{", "t line 2: is not a JSON object");
  expect_refused(good + "\n[]", "t line 2: is not a JSON object");
  expect_refused(with("\"timestamp\": 5", "\"timestamp\": -1"), "t line 2: \"timestamp\"");
  expect_refused(with("\"timestamp\": 5", "\"timestamp\": 1e300"), "t line 2: \"timestamp\"");
  expect_refused(with("\"timestamp\": 5", "\"timestamp\": \"5\""), "t line 2: \"timestamp\"");
  expect_refused(with("\"timestamp\": 5", "\"timestamp\": 4"), "its time is before");
  for (const char* bad : {"0", "-600", "600.5", "\"600\"", "16777217", "1e400", "null"}) {
    expect_refused(with("600", bad), "t line 2: ");
  }
  for (const char* bad : {"-7", "7.5", "[]", "99999999999"}) {
    expect_refused(with("7,", std::string(bad) + ","), "t line 2: \"output_length\"");
  }
  expect_refused(with("[0, 1]", "{}"), "t line 2: \"hash_ids\" is not an array");
  expect_refused(with("[0, 1]", "[0]"), "t line 2: \"hash_ids\" has 1 entries");
  expect_refused(with("[0, 1]", "[0, 1, 2]"), "t line 2: \"hash_ids\" has 3 entries");
  expect_refused(with("[0, 1]", "[0, -1]"), "t line 2: \"hash_ids\"[1]");
  expect_refused(with("[0, 1]", "[\"a\", 1]"), "t line 2: \"hash_ids\"[0]");
  expect_refused(good + "\n{" + std::string(kTraceLineBytesMax, ' ') + "}", "is longer than");
  expect_refused(good + "\n{\"a\":" + std::string(5000, '[') + std::string(5000, ']') + "}",
                 "t line 2: is not a JSON object");
}

TEST(Trace, ABadAzureRowIsNamedByLineAndField) {
  const std::string head = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string time = "2023-11-16 18:17:03.9799600";
  for (const char* bad :
       {"", "now", "2023-11-16T18:17:03", "2023-13-16 18:17:03", "2023-02-30 18:17:03",
        "2023-11-16 24:17:03", "2023-11-16 18:60:03", "2023-11-16 18:17:61", "2023-11-16 18:17",
        "2023-11-16 18:17:03.", "2023-11-16 18:17:03.x", "2023-11-16 18:17:03.1234567890",
        "2023-11-16 18:17:-3", "2023-1a-16 18:17:03", "2023-11-16 18:17:03Z"}) {
    expect_refused(head + bad + ",5,5", "t line 2: \"TIMESTAMP\"");
  }
  for (const char* bad : {"", "-1", "x", "5x", " 5", "5.0", "16777217", "99999999999999999999"}) {
    expect_refused(head + time + "," + bad + ",5", "t line 2: \"ContextTokens\"");
    expect_refused(head + time + ",5," + bad, "t line 2: \"GeneratedTokens\"");
  }
  for (const char* bad : {"", ",5", ",5,5,5", ",5,5,"}) {
    expect_refused(head + time + bad, "t line 2: does not have three columns");
  }
  expect_refused(head + time + ",5,5\n2023-11-16 18:17:03,5,5", "t line 3: its time is before");
}

TEST(Trace, AFileThatIsNotThereIsSaid) {
  const base::Result<Trace> trace = read_trace("/nowhere/trace.jsonl", 0, 1);
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.error().code, base::ErrorCode::kNotFound);
  EXPECT_FALSE(read_trace("/proc", 0, 1).ok()) << "a folder is no trace";
}

TEST(Trace, ThePublishedTracesAreReadToTheEnd) {
  const char* shared = std::getenv("BULKHEAD_SHARED");
  if (shared == nullptr) {
    GTEST_SKIP() << "../shared with published traces is absent (BULKHEAD_SHARED)";
  }
  const std::filesystem::path folder = std::filesystem::path(shared) / "data" / "traces";
  const auto rows = [&folder](const char* name) {
    return read_trace((folder / name).string(), 0, 1'000'000).value().rows.size();
  };
  EXPECT_EQ(rows("mooncake-conversation.jsonl"), 12031u);
  EXPECT_EQ(rows("azure-2023-code.csv"), 8819u);
  EXPECT_EQ(rows("azure-2023-conv.csv"), 19366u);
}

}  // namespace
}  // namespace bulkhead::apps
