// The class of machine that a figure belongs to: figures of two classes are not compared.
//
// Threads: any. Invariant: the text is that of bench/machine.py's describe().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bulkhead::apps {

// From the text of /proc/cpuinfo: "AMD EPYC, 2 cores, 24 GiB, avx2 avx512f avx512_bf16".
std::string machine_class(std::string_view cpuinfo, int cores, uint64_t memory_bytes);
// Of this machine, with the cores that this process may run on.
std::string machine_class();

}  // namespace bulkhead::apps
