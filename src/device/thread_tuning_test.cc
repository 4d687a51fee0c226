#include "device/thread_tuning.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <string>
#include <thread>

namespace bulkhead::device {
namespace {

TEST(ThreadTuning, AskingForLatencyLeavesPolicyAndNiceAlone) {
  std::thread([] {
    const int policy = sched_getscheduler(0);
    prefer_latency();  // granted or not: systems differ
    EXPECT_EQ(sched_getscheduler(0), policy);
    sched_param param{};
    ASSERT_EQ(sched_getparam(0, &param), 0);
    EXPECT_EQ(param.sched_priority, 0);
  }).join();
}

TEST(ThreadTuning, LongNamesAreCut) {
  std::thread([] {
    name_thread("a name of more than fifteen characters");
    char name[32] = {};
    ASSERT_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    EXPECT_EQ(std::string(name), "a name of more ");
  }).join();
}

}  // namespace
}  // namespace bulkhead::device
