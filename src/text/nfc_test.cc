#include "text/nfc.h"

#include <gtest/gtest.h>

namespace bulkhead::text {
namespace {

std::string nfc(std::string_view text) {
  std::string out;
  append_nfc(text, out);
  return out;
}

TEST(Nfc, LeavesComposedTextAsItIs) {
  for (const std::string_view text :
       {"", "plain", "na\u00efve \u4f60\u597d \U0001F600", "\uac00"}) {
    EXPECT_EQ(nfc(text), text);
  }
}

TEST(Nfc, JoinsALetterWithItsMarks) {
  EXPECT_EQ(nfc("e\u0301x"), "\u00e9x");
  EXPECT_EQ(nfc("xe\u0302\u0323"), "x\u1ec7");  // marks in either order
  EXPECT_EQ(nfc("xe\u0323\u0302"), "x\u1ec7");
  EXPECT_EQ(nfc("\u00ea\u0323"), "\u1ec7");
}

TEST(Nfc, OrdersMarksByClassAndKeepsTheOrderInsideAClass) {
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(nfc("q\u0301\u0300"), "q\u0301\u0300");
}

TEST(Nfc, AMarkOfTheSameClassBlocksTheOneBehindIt) {
  EXPECT_EQ(nfc("a\u05ae\u0300\u0301"), "\u00e0\u05ae\u0301");
}

TEST(Nfc, ComposesHangulByArithmetic) {
  EXPECT_EQ(nfc("\u1100\u1161"), "\uac00");
  EXPECT_EQ(nfc("\u1112\u1175\u11c2"), "\ud7a3");
  EXPECT_EQ(nfc("\uac00\u11a8"), "\uac01");
  EXPECT_EQ(nfc("\uac01\u11a8"), "\uac01\u11a8");  // has its tail already
}

TEST(Nfc, ReplacesSingletonsAndExcludedCompositions) {
  EXPECT_EQ(nfc("\u212b"), "\u00c5");        // angstrom sign
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");  // excluded from composition
}

TEST(Nfc, KeepsBytesThatAreNoCharacterAndJoinsNothingWithThem) {
  EXPECT_EQ(nfc("\xFF\u0301"), "\xFF\u0301");
  EXPECT_EQ(nfc("e\xFF\u0301"), "e\xFF\u0301");
  EXPECT_EQ(nfc("\xE2\x82"
                "e\u0301\xF0"),
            "\xE2\x82\u00e9\xF0");
}

TEST(Nfc, SortsAVeryLongRunOfMarks) {
  std::string text = "a";
  for (int i = 0; i < 100'000; ++i) text += i % 2 == 0 ? "\u0307" : "\u0323";
  const std::string out = nfc(text);
  EXPECT_EQ(out.substr(0, 5), "\u1ea1\u0323");
  EXPECT_EQ(out.substr(out.size() - 2), "\u0307");
}

}  // namespace
}  // namespace bulkhead::text
