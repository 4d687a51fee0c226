// What every part of `bulkhead bench reproduce` measures with: the machine, its kernels and peaks,
// and models in the formats asked for.
//
// Threads: the caller's; decoders run on the one pool. Invariant: every decoder of a run counts its
// operations and bytes (bench/op_timer.h), so that a rate has its bound beside it.
#pragma once

#include <filesystem>
#include <memory>
#include <ostream>
#include <string>

#include "apps/bench/options.h"
#include "apps/bench/reproduce/parts.h"
#include "apps/bench/reproduce/table.h"
#include "base/result.h"
#include "bench/op_timer.h"
#include "device/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/checkpoint.h"
#include "model/decoder.h"

namespace bulkhead::apps::reproduce {

class Workbench {
 public:
  // `log` hears what is being done.
  static base::Result<std::unique_ptr<Workbench>> make(const ReproduceOptions& options,
                                                       std::ostream& log);

  const ReproduceOptions& options() const { return options_; }
  const device::CpuFacts& cpu() const { return cpu_; }
  device::Isa isa() const { return kernels_.isa; }
  const kernels::KernelSet& kernels() const { return kernels_; }
  const Bounds& bounds() const { return bounds_; }
  const bench::Peaks& peaks() const { return peaks_; }
  device::ThreadPool& threads() { return threads_; }
  int rounds() const { return options_.rounds; }
  std::optional<double> speed_bound(std::optional<double> bound) const {
    return reproduce::speed_bound(options_, bound);
  }
  std::optional<double> context_bound(std::optional<double> bound) const {
    return reproduce::context_bound(options_, bound);
  }
  // Tokens of context for what is said of caches.
  int32_t context() const { return options_.context; }

  void say(const std::string& what) { log_ << what << std::endl; }
  std::filesystem::path model_path(const std::string& name) const;
  base::Result<std::unique_ptr<model::Decoder>> load(
      const std::string& model, const std::string& recipe,
      kernels::Activations activations = kernels::Activations::kFp32);

 private:
  Workbench(const ReproduceOptions& options, device::CpuFacts cpu, kernels::KernelSet kernels,
            std::ostream& log);

  ReproduceOptions options_;
  device::CpuFacts cpu_;
  kernels::KernelSet kernels_;
  Bounds bounds_;
  device::ThreadPool threads_;
  bench::Peaks peaks_;
  std::ostream& log_;
};

// The parts of the table.
base::Status size_rows(Workbench& bench, Table& table);
base::Status cache_rows(Workbench& bench, Table& table);
base::Status weight_rows(Workbench& bench, Table& table);
base::Status deployment_rows(Workbench& bench, Table& table);
base::Status integrity_rows(Workbench& bench, Table& table);

// The parts asked for; the table goes to `out`, row by row as it is measured. False: a row falls
// short.
base::Result<bool> reproduce(const ReproduceOptions& options, std::ostream& out, std::ostream& log);

}  // namespace bulkhead::apps::reproduce
