#include "device/thread_tuning.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace bulkhead::device {
namespace {

// struct sched_attr of sched_setattr(2), first version; glibc 2.36 has neither it nor the call.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;  // nanoseconds; of SCHED_OTHER the time slice
  uint64_t deadline;
  uint64_t period;
};

constexpr uint64_t kKeepParameters = 0x10;  // SCHED_FLAG_KEEP_PARAMS: nice and priority stay
constexpr uint64_t kSlice = 100'000;        // the shortest there is

}  // namespace

bool prefer_latency() {
  SchedulingAttributes attributes{};
  attributes.size = sizeof attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return false;
  attributes.size = sizeof attributes;
  attributes.flags &= ~kKeepParameters;
  attributes.runtime = kSlice;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

void name_thread(const char* name) {
  char kept[16] = {};
  for (int i = 0; i < 15 && name[i] != '\0'; ++i) kept[i] = name[i];
  pthread_setname_np(pthread_self(), kept);
}

}  // namespace bulkhead::device
