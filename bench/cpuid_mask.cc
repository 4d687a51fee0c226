// A library to preload into a program that chooses its kernels by CPUID. Whatever the machine has,
// the program sees the AVX2 class: no AVX-512, no AMX, no dot products of bytes, no GFNI.
//
//   LD_PRELOAD=build/release/lib/libbench_cpuid_mask.so python ...
//
// Where the processor can, Linux makes CPUID fault (arch_prctl, ARCH_SET_CPUID) in a thread and in
// all that it starts, until an exec, after which this library is loaded again. The handler of the
// fault runs the instruction in the program's place and clears bits of its answer. A machine that
// cannot ends the program before it begins, so that nothing is measured unmasked. What was chosen
// before any library ran stays: libc's kind of memcpy.
//
// Threads: any. Invariants: the answer differs from the processor's in the bits below alone; any
// other SIGSEGV does what it did without this library. A thread that blocks SIGSEGV, or a program
// that takes the signal for itself, ends at its next CPUID and never goes on unmasked.
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>

namespace {

struct Registers {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
};

constexpr uint32_t bits(std::initializer_list<int> places) {
  uint32_t mask = 0;
  for (const int place : places) mask |= uint32_t{1} << place;
  return mask;
}

// What is hidden of leaf 7 and of its subleaf 1.
constexpr Registers kFeatures = {
    .ebx = bits({16, 17, 21, 26, 27, 28, 30, 31}),  // AVX512 F, DQ, IFMA, PF, ER, CD, BW, VL
    .ecx = bits({1, 6, 8, 11, 12, 14}),             // VBMI, VBMI2, GFNI, VNNI, BITALG, VPOPCNTDQ
    .edx = bits({2, 3, 8, 22, 23, 24, 25})};        // 4VNNIW, 4FMAPS, VP2INTERSECT, FP16, AMX
constexpr Registers kMoreFeatures = {
    .eax = bits({4, 5, 21, 23}),      // AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA
    .edx = bits({4, 5, 8, 10, 19})};  // AVX-VNNI-INT8 and INT16, AVX-NE-CONVERT, AMX-COMPLEX, AVX10
// Leaves that describe nothing but what is hidden: AMX tiles, products of tiles, AVX10.
constexpr uint32_t kTileLeaf = 0x1d;
constexpr uint32_t kTileProductLeaf = 0x1e;
constexpr uint32_t kAvx10Leaf = 0x24;

struct sigaction previous_action;

// 0 on success. Nothing of libc beyond the bare call: it also runs in the handler.
long let_cpuid_run(bool runs) { return ::syscall(SYS_arch_prctl, ARCH_SET_CPUID, runs ? 1L : 0L); }

Registers masked(uint32_t leaf, uint32_t subleaf) {
  Registers out;
  let_cpuid_run(true);
  __cpuid_count(leaf, subleaf, out.eax, out.ebx, out.ecx, out.edx);
  let_cpuid_run(false);
  if (leaf == kTileLeaf || leaf == kTileProductLeaf || leaf == kAvx10Leaf) return {};
  if (leaf != 7 || subleaf > 1) return out;
  const Registers& hidden = subleaf == 0 ? kFeatures : kMoreFeatures;
  return {.eax = out.eax & ~hidden.eax,
          .ebx = out.ebx & ~hidden.ebx,
          .ecx = out.ecx & ~hidden.ecx,
          .edx = out.edx & ~hidden.edx};
}

// A refused instruction comes from the kernel without an address. Only then is there code to read.
bool is_cpuid(const siginfo_t& info, greg_t rip) {
  constexpr unsigned char kCpuid[] = {0x0f, 0xa2};
  return info.si_code == SI_KERNEL &&
         std::memcmp(reinterpret_cast<const void*>(rip), kCpuid, sizeof(kCpuid)) == 0;
}

void on_fault(int number, siginfo_t* info, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (!is_cpuid(*info, registers[REG_RIP])) {
    // The instruction runs again and faults into the handler of before; a signal that somebody
    // sent does not come again by itself.
    ::sigaction(SIGSEGV, &previous_action, nullptr);
    if (info->si_code <= 0) ::raise(number);
    return;
  }
  const Registers answer =
      masked(static_cast<uint32_t>(registers[REG_RAX]), static_cast<uint32_t>(registers[REG_RCX]));
  registers[REG_RAX] = answer.eax;
  registers[REG_RBX] = answer.ebx;
  registers[REG_RCX] = answer.ecx;
  registers[REG_RDX] = answer.edx;
  registers[REG_RIP] += 2;
}

[[gnu::constructor]] void mask() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigfillset(&action.sa_mask);  // no other handler runs while CPUID does not fault
  if (::sigaction(SIGSEGV, &action, &previous_action) == 0 && let_cpuid_run(false) == 0) return;
  constexpr std::string_view kRefusal =
      "error: CPUID cannot be masked: this processor or its kernel has no CPUID faulting\n";
  // There is no more to be done if nobody reads it.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kRefusal.data(), kRefusal.size());
  ::_exit(1);
}

}  // namespace
