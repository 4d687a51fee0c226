#include "apps/eval/tasks/wikitext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/eval/tasks/test_files.h"
#include "apps/eval/text_tools.h"

namespace bulkhead::apps::eval {
namespace {

using ::testing::ElementsAre;

TEST(Wikitext, APageBeginsAtItsTitle) {
  EXPECT_THAT(
      pages_of(" \n = Owls = \n \n They hoot . \n \n = = Food = = \n Mice . \n \n = Larks = "
               "\n \n Sing = \n"),
      ElementsAre(" = Owls = \n \n They hoot . \n \n = = Food = = \n Mice . \n \n",
                  " = Larks = \n \n Sing = \n"));
  EXPECT_TRUE(pages_of(" \n\n").empty());
}

TEST(Wikitext, WhatWasPulledApartIsJoined) {
  EXPECT_EQ(rejoined(" = A = \n The 1 @,@ 000 star @-@ ships ' crew ; 1 @.@ 5 \xC2\xB0 C . So \n"),
            " = A =\nThe 1,000 star-ships' crew; 1.5\xC2\xB0"
            "C. So\n");
  EXPECT_EQ(rejoined("( a b ) [ c ] { d } \" e \" and ' f '"), "(a b) [c] {d} \"e\" and 'f'");
  EXPECT_EQ(rejoined("it 's N of ( an open"), "it's 1 of ( an open");
  EXPECT_EQ(rejoined("x /' 5/ y"), "x /'[0-9]/ y");
  EXPECT_EQ(rejoined("( ( a ) b )"), "(( a) b )");
  EXPECT_EQ(rejoined(""), "");
}

TEST(Wikitext, WordsAndBytesAreThoseOfThePageAsItIs) {
  DataFolder data;
  data.write("text/wikitext-2-test.txt", " = Owls = \n \n Zürich 's owls . \n");
  const base::Result<Task> task = load_task("wikitext", {data.path(), -1});
  ASSERT_TRUE(task.ok()) << task.error().message;
  ASSERT_EQ(task->questions.size(), 1u);
  EXPECT_EQ(std::get<RollingAsk>(task->questions[0].ask).text, " = Owls =\n\nZürich's owls.\n");
  Reply reply;
  reply.scores = {-12.5};
  const Verdict verdict = task->questions[0].judge(reply);
  ASSERT_EQ(verdict.measures.size(), 3u);
  EXPECT_EQ(verdict.measures[0].value, -12.5);
  EXPECT_EQ(verdict.measures[1].value, 9.0);  // empty ends count, as re.split has them
  EXPECT_EQ(verdict.measures[2].value, 33.0);
  EXPECT_FALSE(load_task("wikitext", {data.path(), 2}).ok());
}

TEST(TextTools, WhiteSpaceIsThatOfUnicode) {
  EXPECT_EQ(stripped("\xE2\x80\x83 a b\xC2\xA0\n"), "a b");
  EXPECT_EQ(stripped(" \t"), "");
  EXPECT_EQ(split_count("a b\xE2\x80\x83 c"), 3u);
  EXPECT_EQ(split_count(""), 1u);
  EXPECT_EQ(characters("Z\xC3\xBCrich\xFF"), 7u);
}

TEST(TextTools, LinesEndEitherWay) {
  EXPECT_THAT(lines_of("a\r\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_TRUE(lines_of("").empty());
}

}  // namespace
}  // namespace bulkhead::apps::eval
