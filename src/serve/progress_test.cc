#include "serve/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace bulkhead::serve {
namespace {

TEST(Progress, PrintsALineForEveryTenthOffATerminal) {
  base::ManualClock clock;
  std::ostringstream out;
  Progress progress(out, false, "loading", clock);
  for (uint64_t done = 0; done <= 1000; ++done) {
    clock.advance(std::chrono::milliseconds(1));
    progress.update(done, 1000);
  }
  progress.finish();
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_NE(text.find("loading 100%  1000 B of 1000 B"), std::string::npos);
}

TEST(Progress, RedrawsOneLineOnATerminalAndEndsIt) {
  base::ManualClock clock;
  std::ostringstream out;
  Progress progress(out, true, "loading", clock);
  progress.update(1, 2);
  progress.update(2, 2);
  progress.finish();
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 2);
}

TEST(Progress, SurvivesNothingToDoAndMoreThanAll) {
  base::ManualClock clock;
  std::ostringstream out;
  Progress progress(out, false, "loading", clock);
  progress.update(0, 0);
  EXPECT_EQ(out.str(), "");
  progress.update(9, 3);
  EXPECT_NE(out.str().find("100%"), std::string::npos);
}

}  // namespace
}  // namespace bulkhead::serve
