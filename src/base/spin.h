// What a thread says to the processor while it spins on a flag.
//
// Threads: any. The one place below device/ that knows an instruction by name: everybody may spin.
#pragma once

namespace bulkhead::base {

// Frees the core's other hardware thread and saves power for some tens of cycles.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace bulkhead::base
