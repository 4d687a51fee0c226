#include "apps/bench/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace bulkhead::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HistoryEntry entry_of(double value) {
  HistoryEntry entry;
  entry.bench = "serve";
  entry.date = "2026-11-30";
  entry.commit = "abc1234";
  entry.machine = "a \"machine\", 2 cores";
  entry.model = "tiny";
  set_figure(entry, "decode 8", "tokens/s", value);
  return entry;
}

base::Result<std::vector<HistoryEntry>> read(const std::string& text) {
  std::istringstream in(text);
  return read_history(in, "h.jsonl");
}

TEST(History, ALineComesBackAsItWasWritten) {
  HistoryEntry entry = entry_of(1.0 / 3.0);
  entry.isa = "avx2";
  entry.engine = "bulkhead";
  entry.settings = "8 at once";
  entry.values = {0.5, 0.25};
  const auto read_back = read(history_line(entry) + "\n").value();
  ASSERT_EQ(read_back.size(), 1u);
  EXPECT_EQ(history_line(read_back[0]), history_line(entry));
  EXPECT_EQ(read_back[0].machine, entry.machine);
  EXPECT_EQ(read_back[0].settings, "8 at once");
  EXPECT_EQ(read_back[0].median, 0.333333) << "six digits";
  EXPECT_THAT(read_back[0].values, ElementsAre(0.5, 0.25));
}

TEST(History, LinesOfOtherWritersMayHaveMoreFieldsAndLessThanAll) {
  const auto entries = read(R"({"bench": "b", "date": "d", "commit": "c", "machine": "m", )"
                            R"("figure": "f", "unit": "s", "median": 3, "weather": [1, {}]})"
                            "\r\n\n")
                           .value();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].median, 3.0);
  EXPECT_THAT(entries[0].model, IsEmpty());
  EXPECT_THAT(entries[0].values, IsEmpty());
  EXPECT_THAT(read("").value(), IsEmpty());
}

TEST(History, ABadLineIsNamedWithItsField) {
  const std::string good = history_line(entry_of(1.5)) + "\n";
  const auto with = [&good](const std::string& what, const std::string& instead) {
    std::string line = good;
    return line.replace(line.find(what), what.size(), instead);
  };
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"x", "is not a JSON object"},
      {"[]", "is not a JSON object"},
      {"{}", "\"bench\" is not a text"},
      {with(R"("serve")", "5"), "\"bench\" is not a text"},
      {with(R"("serve")", R"("")"), "\"bench\" is not a text"},
      {with(R"("tokens/s")", "null"), "\"unit\" is not a text"},
      {with(R"("tiny")", "[]"), "\"model\" is not a text"},
      {with("tiny", std::string(2000, 'x')), "\"model\" is not a text"},
      {with(R"("median":1.5)", R"("median":"1")"), "\"median\" is not a number"},
      {with(R"("median":1.5)", R"("median":1e999)"), "h.jsonl line 2: "},
      {with("[1.5]", "7"), "\"values\" is not an array"},
      {with("[1.5]", "[1,null]"), "\"values\" is not a number"},
      {std::string(70'000, ' '), "is longer than 65536 bytes"},
  };
  for (const auto& [line, expected] : bad) {
    const auto refused = read(good + line);
    ASSERT_FALSE(refused.ok()) << line.substr(0, 200);
    EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("h.jsonl line 2: "));
    EXPECT_THAT(refused.error().message, HasSubstr(expected));
  }
}

TEST(History, WhatIsAddedStandsBehindWhatWasThere) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("bulkhead-history-" + std::to_string(getpid()));
  EXPECT_EQ(read_history(path.string()).error().code, base::ErrorCode::kNotFound);
  ASSERT_TRUE(append_history(path.string(), {entry_of(1), entry_of(2)}).ok());
  ASSERT_TRUE(append_history(path.string(), {entry_of(3)}).ok());
  const auto entries = read_history(path.string()).value();
  std::filesystem::remove(path);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].median, 1.0);
  EXPECT_EQ(entries[2].median, 3.0);
  const base::Status refused = append_history("/nowhere/history.jsonl", {entry_of(1)});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, base::ErrorCode::kIo);
}

TEST(History, TheDateIsADay) {
  EXPECT_THAT(history_date(), ::testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}"));
}

}  // namespace
}  // namespace bulkhead::apps
