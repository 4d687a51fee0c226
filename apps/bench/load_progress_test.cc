#include "apps/bench/load_progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace bulkhead::apps {
namespace {

TEST(LoadProgress, SaysHowFarAndHowLongStill) {
  LoadProgress progress;
  progress.total = 64;
  progress.open = 8;
  progress.output_tokens = 412;
  progress.elapsed_s = 1.0;
  EXPECT_EQ(progress_text(progress), "0 of 64, 8 open, 412.0 tok/s, 1 s so far");
  progress.done = 16;
  progress.failed = 1;
  progress.elapsed_s = 4.0;
  EXPECT_EQ(progress_text(progress), "16 of 64, 8 open, 1 failed, 103.0 tok/s, 12 s left");
}

TEST(LoadProgress, DrawsOnATerminalOnlyAndCleansUp) {
  std::ostringstream file;
  LoadProgressLine quiet(file, false);
  quiet.update({});
  quiet.finish();
  EXPECT_EQ(file.str(), "");
  std::ostringstream terminal;
  LoadProgressLine line(terminal, true);
  line.update({});
  line.finish();
  line.finish();
  EXPECT_TRUE(terminal.str().ends_with("\r\033[K"));
  EXPECT_EQ(terminal.str().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace bulkhead::apps
