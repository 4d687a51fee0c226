#include "apps/doctor/diagnosis.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/json_writer.h"
#include "base/units.h"

namespace bulkhead::apps {
namespace {

constexpr uint64_t kMemoryMin = uint64_t{512} << 20;  // less holds not even a small model
constexpr uint64_t kMemoryGood = uint64_t{4} << 30;
constexpr uint64_t kOpenFilesMin = 64;
constexpr uint64_t kOpenFilesGood = 2048;  // 1024 connections, the checkpoint, logs

Finding ok(std::string name, std::string found) {
  return {std::move(name), std::move(found), Verdict::kOk, {}};
}
Finding better(std::string name, std::string found, std::string cure) {
  return {std::move(name), std::move(found), Verdict::kCouldBeBetter, std::move(cure)};
}
Finding problem(std::string name, std::string found, std::string cure) {
  return {std::move(name), std::move(found), Verdict::kProblem, std::move(cure)};
}

Finding processor(const MachineFacts& facts) {
  const Topology& t = facts.topology;
  return ok("processor", fmt::format("{}, {} socket{}, {} cores, {} logical CPUs{}",
                                     facts.cpu.model_name, t.sockets, t.sockets == 1 ? "" : "s",
                                     t.cores, t.cpus, t.hypervisor ? ", virtual" : ""));
}

Finding instruction_sets(const device::CpuFacts& cpu) {
  std::string found;
  const auto add = [&found](bool has, std::string_view name) {
    if (has) found += fmt::format("{}{}", found.empty() ? "" : ", ", name);
  };
  add(cpu.avx2_fma_f16c, "AVX2 with FMA and F16C");
  add(cpu.avx512, "AVX-512");
  add(cpu.avx512_bf16, "AVX512-BF16");
  add(cpu.amx_bf16, "AMX-BF16");
  if (!found.empty()) return ok("instructions", found);
  return better("instructions", "no AVX2: only the slow reference kernels run",
                "use a processor with AVX2, or a virtual machine type that passes it on "
                "(QEMU: -cpu host)");
}

Finding kernels(const MachineFacts& facts) {
  return ok("kernels",
            fmt::format("{}: {}", device::to_string(device::best_isa(facts.cpu)), facts.kernels));
}

Finding amx(const MachineFacts& facts) {
  if (facts.cpu.amx_bf16) return ok("AMX tiles", "granted by the kernel (arch_prctl)");
  if (!facts.topology.amx) return ok("AMX tiles", "not on this processor");
  return better("AMX tiles", "the processor has them, the kernel does not grant them",
                "run Linux 5.16 or newer; in a container allow the system call arch_prctl "
                "(docker run --security-opt seccomp=unconfined, or a profile that lists it)");
}

Finding usable_cpus(const MachineFacts& facts) {
  const unsigned cpus = facts.topology.cpus;
  if (facts.cgroup.cpus > 0.0 && facts.cgroup.cpus < static_cast<double>(facts.affinity_cpus)) {
    return better("usable CPUs",
                  fmt::format("a quota of {:g} CPUs on {}: threads are stopped when it is used up",
                              facts.cgroup.cpus, facts.affinity_cpus),
                  "raise the quota (docker run --cpus N, systemd CPUQuota=), or better give whole "
                  "CPUs (docker run --cpuset-cpus)");
  }
  if (facts.affinity_cpus > 0 && facts.affinity_cpus < cpus) {
    return better(
        "usable CPUs", fmt::format("{} of {}: this process is bound", facts.affinity_cpus, cpus),
        fmt::format("taskset -pc 0-{} $$   # in the shell that starts bulkhead", cpus - 1));
  }
  return ok("usable CPUs", fmt::format("all {}", cpus));
}

Finding hyperthreads(const MachineFacts& facts) {
  const Topology& t = facts.topology;
  if (t.cores == 0 || t.cpus <= t.cores || facts.cpu.logical_cpus <= t.cores) {
    return ok("hyperthreads", "one thread to a core");
  }
  return better("hyperthreads",
                fmt::format("{} logical CPUs share {} cores; vector units gain nothing from the "
                            "second thread",
                            t.cpus, t.cores),
                fmt::format("bulkhead serve --threads {}", t.cores));
}

Finding load(const MachineFacts& facts) {
  if (facts.load_average < 0.0) return ok("load", "not known");
  const std::string found = fmt::format("{:.2f} in the last minute", facts.load_average);
  const double busy = 0.5 * std::max(1u, facts.cpu.logical_cpus);
  if (facts.load_average < std::max(0.8, busy)) return ok("load", found);
  return better("load", found + ": something else is running",
                "top -o %CPU   # and stop what is not needed; one thread too many slows all");
}

Finding memory(const MachineFacts& facts) {
  uint64_t usable = facts.memory.available_bytes;
  std::string found = fmt::format("{} available of {}", base::format_bytes(usable),
                                  base::format_bytes(facts.memory.total_bytes));
  if (facts.cgroup.memory_bytes > 0 && facts.cgroup.memory_bytes < facts.memory.total_bytes) {
    usable = std::min(usable, facts.cgroup.memory_bytes);
    found += fmt::format(", limited to {} by the control group",
                         base::format_bytes(facts.cgroup.memory_bytes));
  }
  const char* cure =
      "stop what uses it (ps aux --sort -rss), or raise the limit (docker run --memory, systemd "
      "MemoryMax=)";
  if (facts.memory.total_bytes == 0) return ok("memory", "not known");
  if (usable < kMemoryMin) return problem("memory", found, cure);
  if (usable < kMemoryGood) return better("memory", found + ": room for small models only", cure);
  return ok("memory", found);
}

Finding huge_pages(const MachineFacts& facts) {
  const std::string& mode = facts.huge_page_mode;
  if (mode == "always" || mode == "madvise") {
    return ok("huge pages", "transparent, on " + (mode == "madvise" ? "request" : mode));
  }
  return better("huge pages",
                mode.empty() ? "transparent huge pages are not in this kernel"
                             : "transparent huge pages are switched off",
                "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
}

Finding reserved_pages(const MachineFacts& facts) {
  const MemoryFacts& m = facts.memory;
  if (m.huge_pages == 0) return ok("hugetlb", "none reserved (none are needed)");
  const std::string found =
      fmt::format("{} pages of {} reserved, {} free: Bulkhead uses none of them", m.huge_pages,
                  base::format_bytes(m.huge_page_bytes), m.huge_pages_free);
  if (m.huge_pages_free == 0) return ok("hugetlb", found);
  return better("hugetlb", found,
                fmt::format("sudo sysctl vm.nr_hugepages={}   # gives {} back",
                            m.huge_pages - m.huge_pages_free,
                            base::format_bytes(m.huge_pages_free * m.huge_page_bytes)));
}

Finding numa(const MachineFacts& facts) {
  if (facts.numa_nodes == 0) return ok("NUMA nodes", "not known");
  if (facts.numa_nodes == 1) return ok("NUMA nodes", "1");
  return better("NUMA nodes",
                fmt::format("{}: memory of another node is slower to read", facts.numa_nodes),
                "numactl --cpunodebind=0 --membind=0 bulkhead serve ...   # where the model fits");
}

std::string limit_text(uint64_t value) {
  return value == RLIM_INFINITY ? "unlimited" : fmt::format("{}", value);
}

Finding open_files(const MachineFacts& facts) {
  const ResourceLimit& limit = facts.open_files;
  const std::string found =
      fmt::format("{} (may be raised to {})", limit_text(limit.soft), limit_text(limit.hard));
  if (limit.soft >= kOpenFilesGood) return ok("open files", found);
  const std::string cure = fmt::format(
      "ulimit -n {}", std::min<uint64_t>(std::max<uint64_t>(limit.hard, kOpenFilesGood), 65536));
  if (limit.soft < kOpenFilesMin) return problem("open files", found, cure);
  return better("open files", found + ": fewer than 1024 connections and the rest need", cure);
}

Finding locked_memory(const MachineFacts& facts) {
  const uint64_t soft = facts.locked_memory.soft;
  return ok("locked memory",
            (soft == RLIM_INFINITY ? std::string("unlimited") : base::format_bytes(soft)) +
                " (Bulkhead locks none)");
}

void add_peaks(const std::optional<Peaks>& peaks, std::vector<Finding>& findings) {
  if (!peaks) {
    findings.push_back(ok("memory speed", "not measured"));
    return;
  }
  findings.push_back(ok(
      "memory speed",
      fmt::format("{:.1f} GB/s read by {} threads: a lone request decodes at most {:.0f} tokens/s "
                  "from 1 GB of weights",
                  peaks->read_gbytes, peaks->threads, peaks->read_gbytes)));
  findings.push_back(ok("arithmetic", fmt::format("{:.0f} GFLOP/s of fp32 multiply-adds by {} "
                                                  "threads",
                                                  peaks->fma_gflops, peaks->threads)));
}

Finding clock_source(const MachineFacts& facts) {
  const std::string& source = facts.clock_source;
  if (source != "hpet" && source != "acpi_pm" && source != "jiffies") {
    return ok("clock", source.empty() ? "not known" : source);
  }
  return better("clock", source + ": reading it costs microseconds",
                "echo tsc | sudo tee "
                "/sys/devices/system/clocksource/clocksource0/current_clocksource   # or boot "
                "with clocksource=tsc");
}

Finding governor(const MachineFacts& facts) {
  if (facts.governor.empty()) return ok("frequency", "set by the host");
  if (facts.governor != "powersave" && facts.governor != "conservative") {
    return ok("frequency", facts.governor);
  }
  return better("frequency", facts.governor + ": cores may stay slow under short bursts",
                "sudo cpupower frequency-set -g performance");
}

Finding container(const MachineFacts& facts) {
  if (facts.container_signs.empty()) return ok("container", "no sign of one");
  std::string found = "yes:";
  for (const std::string& sign : facts.container_signs) found += " " + sign;
  return ok("container", found);
}

Finding loopback(const MachineFacts& facts) {
  if (facts.loopback) return ok("loopback", "127.0.0.1 can be listened on");
  return problem("loopback", "no port on 127.0.0.1 can be listened on",
                 "ip link set lo up; in a container check the network and seccomp profile");
}

std::string_view json_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kCouldBeBetter:
      return "could_be_better";
    case Verdict::kProblem:
      return "problem";
  }
  return "ok";
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kCouldBeBetter:
      return "could be better";
    case Verdict::kProblem:
      return "problem";
  }
  return "ok";
}

std::vector<Finding> diagnose(const MachineFacts& facts, const std::optional<Peaks>& peaks) {
  std::vector<Finding> findings = {
      processor(facts),   instruction_sets(facts.cpu), kernels(facts), amx(facts),
      usable_cpus(facts), hyperthreads(facts),         load(facts),    memory(facts),
      huge_pages(facts),  reserved_pages(facts),       numa(facts)};
  add_peaks(peaks, findings);
  for (Finding& finding :
       std::vector<Finding>{open_files(facts), locked_memory(facts), clock_source(facts),
                            governor(facts), container(facts), loopback(facts)}) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

bool can_serve(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.verdict == Verdict::kProblem; });
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string out;
  size_t improvable = 0;
  for (const Finding& finding : findings) {
    out +=
        fmt::format("{:<16} {:<14} {}\n", to_string(finding.verdict), finding.name, finding.found);
    if (!finding.cure.empty()) out += fmt::format("{:>31} {}\n", "->", finding.cure);
    improvable += finding.verdict == Verdict::kCouldBeBetter ? 1 : 0;
  }
  out += can_serve(findings) ? "\nThis machine can serve" : "\nThis machine cannot serve";
  if (improvable > 0) {
    out += fmt::format("; {} thing{} could be better", improvable, improvable == 1 ? "" : "s");
  }
  return out + ".\n";
}

std::string findings_json(const std::vector<Finding>& findings) {
  base::JsonWriter json;
  json.begin_object().key("can_serve").value(can_serve(findings));
  json.key("findings").begin_array();
  for (const Finding& finding : findings) {
    json.begin_object().key("name").value(finding.name).key("found").value(finding.found);
    json.key("verdict").value(json_name(finding.verdict)).key("cure");
    finding.cure.empty() ? json.null() : json.value(finding.cure);
    json.end_object();
  }
  json.end_array().end_object();
  return std::move(json).take();
}

}  // namespace bulkhead::apps
