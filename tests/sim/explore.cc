#include "sim/explore.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "wire/bytes.h"

namespace bulkhead::sim {
namespace {

// A run is tried so many times at most while its faults are taken away.
constexpr int kTriesMax = 400;
constexpr size_t kTextMax = 1u << 16;

// What a child tells, one record after another.
constexpr uint8_t kStruck = 1;
constexpr uint8_t kResult = 2;

void put_fault(const Fault& fault, wire::ByteWriter& out) {
  out.put(kStruck);
  out.put(static_cast<uint8_t>(fault.id.kind));
  out.put(fault.id.number);
  out.put(static_cast<int64_t>(fault.at.count()));
  out.text(fault.where);
}

void put_result(const RunResult& result, wire::ByteWriter& out) {
  out.put(kResult);
  out.put(static_cast<uint8_t>(result.failure.has_value()));
  out.text(result.failure.value_or(""));
  out.put(result.digest);
  out.bytes(std::as_bytes(std::span(&result.stats, 1)));
}

// The faults come as they strike, so that they are known of a run that never came to its end.
RunResult hear(std::span<const std::byte> bytes) {
  RunResult result;
  result.failure = "the run ended its process";
  wire::ByteReader in(bytes);
  while (in.remaining() > 0) {
    const auto record = in.get<uint8_t>();
    if (record == kStruck) {
      Fault fault;
      fault.id.kind = static_cast<FaultKind>(in.get<uint8_t>());
      fault.id.number = in.get<uint64_t>();
      fault.at = base::Nanoseconds{in.get<int64_t>()};
      fault.where = in.text(kTextMax);
      result.faults.push_back(std::move(fault));
    } else {
      const bool failed = in.get<uint8_t>() != 0;
      std::string failure = in.text(kTextMax);
      result.failure = failed ? std::optional(std::move(failure)) : std::nullopt;
      result.digest = in.get<uint64_t>();
      const auto stats = in.bytes(sizeof(RunStats));
      if (stats.size() == sizeof(RunStats)) std::memcpy(&result.stats, stats.data(), stats.size());
    }
  }
  return result;
}

void write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written <= 0) return;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

std::vector<std::byte> read_all(int file) {
  std::vector<std::byte> out;
  std::array<std::byte, 4096> part;
  while (true) {
    const ssize_t got = read(file, part.data(), part.size());
    if (got <= 0) return out;
    out.insert(out.end(), part.begin(), part.begin() + got);
  }
}

std::set<FaultId> ids_of(const std::vector<Fault>& faults) {
  std::set<FaultId> out;
  for (const Fault& fault : faults) out.insert(fault.id);
  return out;
}

}  // namespace

RunResult run_apart(const SwarmConfig& config, const RunOptions& options) {
  std::array<int, 2> ends{};
  BH_CHECK(pipe(ends.data()) == 0, "the system has a pipe");
  const pid_t child = fork();
  BH_CHECK(child >= 0, "the system has room for a process");
  if (child == 0) {
    close(ends[0]);
    const auto tell = [file = ends[1]](auto put) {
      std::vector<std::byte> bytes;
      wire::ByteWriter out(bytes);
      put(out);
      write_all(file, bytes);
    };
    RunOptions own = options;
    own.on_fault = [&](const Fault& fault) {
      tell([&](wire::ByteWriter& out) { put_fault(fault, out); });
    };
    const RunResult result = run_world(config, own);
    tell([&](wire::ByteWriter& out) { put_result(result, out); });
    _exit(0);
  }
  close(ends[1]);
  const std::vector<std::byte> bytes = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return hear(bytes);
}

RunResult minimise(const RunWith& run_with, RunResult failed) {
  int tries = 0;
  // Half at a time while that works, then one by one until none can go.
  size_t part = (failed.faults.size() + 1) / 2;
  while (part > 0) {
    bool fewer = false;
    for (size_t begin = 0; begin < failed.faults.size() && tries < kTriesMax;) {
      std::vector<Fault> kept = failed.faults;
      const size_t end = std::min(begin + part, kept.size());
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(begin),
                 kept.begin() + static_cast<std::ptrdiff_t>(end));
      ++tries;
      RunResult result = run_with(ids_of(kept));
      if (!result.failure || result.faults.size() >= failed.faults.size()) {
        begin = end;
        continue;
      }
      fewer = true;
      failed = std::move(result);
    }
    if (part > 1 || !fewer) part /= 2;
  }
  return failed;
}

RunResult minimise(const SwarmConfig& config, const RunOptions& options, RunResult failed) {
  const auto run_with = [&](const std::set<FaultId>& only) {
    RunOptions trial = options;
    trial.only = only;
    return run_apart(config, trial);
  };
  return minimise(run_with, std::move(failed));
}

void print_failure(std::ostream& out, const SwarmConfig& config, const RunOptions& options,
                   const RunResult& failed) {
  out << fmt::format(
      "FAILED: bulkhead_sim --seed {} --steps {}\n  {}\n  {}\n  faults it needs: {}\n", config.seed,
      options.steps, describe(config), *failed.failure, failed.faults.empty() ? "none" : "");
  for (const Fault& fault : failed.faults) out << "    " << describe(fault) << "\n";
  out.flush();
}

}  // namespace bulkhead::sim
