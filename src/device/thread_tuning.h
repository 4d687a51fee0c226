// What a thread may ask of the system's scheduler without privileges.
//
// Threads: each call is about the calling thread. Invariant: these are wishes; nothing depends on
// whether they are granted.
#pragma once

namespace bulkhead::device {

// For threads that mostly wait and must run soon after they wake, beside threads that compute
// without pause: a short time slice, with which Linux (6.12 and newer) lets them interrupt those
// with a longer one instead of waiting for its end, up to some milliseconds. False when refused.
bool prefer_latency();

// The name that `top -H` and debuggers show; at most 15 characters count.
void name_thread(const char* name);

}  // namespace bulkhead::device
