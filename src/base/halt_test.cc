#include "base/halt.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace bulkhead::base {
namespace {

// Runs in a process of its own, which halts at `where`, and says how far it got by its exit code.
int steps_before_halt(const char* where) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("BULKHEAD_HALT_AT", where, 1);
    const pid_t worker = fork();
    if (worker == 0) {
      for (int i = 0; i < 5; ++i) {
        halt_at("send", "chunk");
        halt_at("send", "commit");
      }
      _exit(0);
    }
    int status = 0;
    waitpid(worker, &status, WUNTRACED);
    const bool stopped = WIFSTOPPED(status);
    // It goes on as if nothing had been.
    kill(worker, SIGCONT);
    if (stopped) waitpid(worker, &status, WUNTRACED);
    _exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? (stopped ? 1 : 2) : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(Halt, StopsOnceAtTheStepThatIsNamedAndNowhereElse) {
  EXPECT_EQ(steps_before_halt("send-chunk"), 1);
  EXPECT_EQ(steps_before_halt("send-commit:5"), 1);
  EXPECT_EQ(steps_before_halt("send-chunk:6"), 2);
  for (const char* other : {"", "send", "chunk", "send-chunks", "sendchunk", "-", ":1"}) {
    EXPECT_EQ(steps_before_halt(other), 2) << other;
  }
}

}  // namespace
}  // namespace bulkhead::base
