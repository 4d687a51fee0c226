#include "apps/drill/matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace bulkhead::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Matrix matrix_of(const std::string& mode) {
  Row row;
  row.fault = find_fault_class("tag_flip");
  row.pool = "decode";
  row.rounds = row.injected = row.noticed_rounds = 2;
  row.answers = {.same = 30, .ended = 2};
  row.noticed["tag"] = {2, {"before"}};
  return {"tiny", mode, {row}};
}

TEST(Matrix, IsAMarkdownTable) {
  const std::string text = matrix_text(matrix_of("abort"));
  EXPECT_EQ(text,
            "| fault    | what goes wrong       | pool   | injected | affected | detected by   | "
            "neighbours unchanged | verdict  |\n"
            "| -------- | --------------------- | ------ | -------- | -------- | ------------- | "
            "-------------------- | -------- |\n"
            "| tag_flip | a bit of a page's tag | decode | 2        | 2 of 32  | tag before 2x | "
            "30 of 30             | detected |\n"
            "\nEvery fault was met as it should be.\n");
}

TEST(Matrix, FailsWithOneRow) {
  Matrix matrix = matrix_of("abort");
  EXPECT_TRUE(passed(matrix));
  matrix.rows.push_back(matrix.rows.front());
  matrix.rows.back().noticed_rounds = 1;
  EXPECT_FALSE(passed(matrix));
  EXPECT_THAT(matrix_text(matrix), HasSubstr("FAIL: noticed in 1 of 2 rounds"));
  EXPECT_THAT(matrix_text(matrix), HasSubstr("FAIL: 1 of 2 rows."));
}

TEST(Matrix, ExplainsWhatNothingSees) {
  Matrix matrix = matrix_of("abort");
  EXPECT_THAT(matrix_text(matrix), Not(HasSubstr("- tail_flip")));
  matrix.rows.front().fault = find_fault_class("tail_flip");
  EXPECT_THAT(matrix_text(matrix), HasSubstr("- tail_flip: a digest is taken when a page is full"));
}

TEST(Matrix, AControlThatShowsNoHarmFails) {
  Matrix matrix = matrix_of("off");
  matrix.rows.front().noticed.clear();
  EXPECT_FALSE(passed(matrix));
  EXPECT_THAT(matrix_text(matrix), HasSubstr("the drill shows nothing"));
  matrix.rows.front().answers.wrong = 1;
  EXPECT_TRUE(passed(matrix));
  EXPECT_THAT(matrix_text(matrix), HasSubstr("the checks are needed"));
}

TEST(Matrix, HasTheSameAsJson) {
  const boost::json::value json = boost::json::parse(matrix_json(matrix_of("abort")));
  EXPECT_EQ(json.at("kv_integrity").as_string(), "abort");
  EXPECT_TRUE(json.at("pass").as_bool());
  const boost::json::value& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("fault").as_string(), "tag_flip");
  EXPECT_EQ(row.at("answers").at("same").as_int64(), 30);
  EXPECT_EQ(row.at("detected_by").at(0).at("phases").at(0).as_string(), "before");
  EXPECT_TRUE(row.at("pass").as_bool());
}

}  // namespace
}  // namespace bulkhead::apps
