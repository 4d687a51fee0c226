// What a forward pass is made of: the share of each op in a step, and how near each comes to the
// machine's own peak.
//
//     cmake --build --preset release --target bench_step
//     build/release/bin/bench_step build/bench/mini-K [--isa avx2] [--threads 2] > step.md
//
// Threads: the pool's. Every op of the kernel set is called through a timer; what is left is time
// between ops (routing, gathering, norms without an op of their own). Operations and bytes are
// counted from the arguments, so a share of the bound is of the work asked for, padding not
// counted.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/steps.h"
#include "device/cpu.h"
#include "kernels/bench/peaks.h"
#include "model/checkpoint.h"
#include "model/loader.h"

namespace {

using namespace bulkhead;
using Clock = std::chrono::steady_clock;

constexpr int32_t kPageTokens = 64;
constexpr int32_t kContext = 512;  // tokens that every decoding sequence has in the cache
constexpr int kRounds = 5;

struct OpTotal {
  const char* name;
  double seconds = 0.0;
  double operations = 0.0;
  double bytes = 0.0;  // weights or cache, each read once
};

enum Op { kGemm, kGroup, kAttention, kSelect, kKvWrite, kNorm, kRope, kSwiglu, kOps };

// The kernel set under the timers. The timed functions have no place for a context of their own.
struct Timed {
  kernels::KernelSet inner;
  std::array<OpTotal, kOps> totals{{{"gemm"},
                                    {"gemm_group (experts, heads)"},
                                    {"attention"},
                                    {"select"},
                                    {"kv_write"},
                                    {"rms_norm"},
                                    {"rope"},
                                    {"swiglu"}}};
};
Timed& timed() {
  static Timed state;
  return state;
}

template <typename Call>
void measure(Op op, double operations, double bytes, Call&& call) {
  const Clock::time_point start = Clock::now();
  call();
  OpTotal& total = timed().totals[op];
  total.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  total.operations += operations;
  total.bytes += bytes;
}

double product_operations(const kernels::GemmArgs& args) {
  return 2.0 * static_cast<double>(args.rows) * static_cast<double>(args.w.n) *
         static_cast<double>(args.w.k);
}
double weight_bytes(const kernels::GemmArgs& args) {
  return args.rows > 0 ? 2.0 * static_cast<double>(args.w.n) * static_cast<double>(args.w.k) : 0.0;
}

void timed_gemm(const kernels::GemmArgs& args, device::ThreadPool& pool) {
  measure(kGemm, product_operations(args), weight_bytes(args),
          [&] { timed().inner.gemm(args, pool); });
}

void timed_group(std::span<const kernels::GemmArgs> group, device::ThreadPool& pool) {
  double operations = 0.0;
  double bytes = 0.0;
  for (const kernels::GemmArgs& args : group) {
    operations += product_operations(args);
    bytes += weight_bytes(args);
  }
  measure(kGroup, operations, bytes, [&] { timed().inner.gemm_group(group, pool); });
}

void timed_attention(const kernels::AttentionArgs& args, device::ThreadPool& pool) {
  const double widths = args.kv.head_dim + args.kv.value_dim();
  double pairs = 0.0;
  double tokens = 0.0;
  for (int32_t s = 0; s < args.slice_count; ++s) {
    const kernels::AttentionSlice& slice = args.slices[s];
    for (int32_t t = 0; t < slice.tokens; ++t) {
      pairs += args.selected != nullptr ? args.selected_counts[slice.first_row + t]
                                        : slice.position + t + 1;
    }
    tokens += slice.position + slice.tokens;
  }
  const double stored = args.kv.latent_dim > 0 ? args.kv.head_dim : widths;
  measure(kAttention, 2.0 * pairs * widths * args.q_heads, 2.0 * tokens * stored * args.kv.kv_heads,
          [&] { timed().inner.attention(args, pool); });
}

void timed_select(const kernels::SelectArgs& args, device::ThreadPool& pool) {
  measure(kSelect, 0.0, 0.0, [&] { timed().inner.select(args, pool); });
}
void timed_kv_write(const kernels::KvWriteArgs& args, device::ThreadPool& pool) {
  measure(kKvWrite, 0.0, 0.0, [&] { timed().inner.kv_write(args, pool); });
}
void timed_norm(const kernels::RmsNormArgs& args, device::ThreadPool& pool) {
  measure(kNorm, 0.0, 0.0, [&] { timed().inner.rms_norm(args, pool); });
}
void timed_rope(const kernels::RopeArgs& args, device::ThreadPool& pool) {
  measure(kRope, 0.0, 0.0, [&] { timed().inner.rope(args, pool); });
}
void timed_swiglu(const kernels::SwigluArgs& args, device::ThreadPool& pool) {
  measure(kSwiglu, 0.0, 0.0, [&] { timed().inner.swiglu(args, pool); });
}

kernels::KernelSet timed_set(kernels::KernelSet inner) {
  timed().inner = inner;
  kernels::KernelSet out = std::move(inner);
  out.gemm = timed_gemm;
  out.gemm_group = timed_group;
  out.attention = timed_attention;
  out.select = timed_select;
  out.kv_write = timed_kv_write;
  out.rms_norm = timed_norm;
  out.rope = timed_rope;
  out.swiglu = timed_swiglu;
  return out;
}

template <typename T>
T take(base::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "error: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

struct Options {
  std::string model;
  device::Isa isa = device::Isa::kRef;
  unsigned threads = 2;
};

Options read_options(int argc, char** argv, const device::CpuFacts& cpu) {
  Options out;
  out.isa = device::best_isa(cpu);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--isa" && has_value) {
      out.isa = take(device::parse_isa(argv[++i]));
    } else if (word == "--threads" && has_value) {
      out.threads = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else {
      out.model = word;
    }
  }
  if (out.model.empty()) {
    std::fprintf(stderr, "usage: bench_step CHECKPOINT [--isa NAME] [--threads N]\n");
    std::exit(2);
  }
  return out;
}

struct Peaks {
  double operations;  // per second
  double bytes;
};

void print_case(const std::string& title, double seconds, int32_t tokens, const Peaks& peaks) {
  fmt::print("\n### {}: {:.1f} ms a step, {:.1f} tokens/s\n\n", title, seconds * 1e3,
             tokens / seconds);
  fmt::print(
      "| op | ms | share of the step | GFLOP/s | of FMA | GB/s | of reads |\n"
      "|---|---|---|---|---|---|---|\n");
  double rest = seconds;
  for (const OpTotal& op : timed().totals) {
    const double each = op.seconds / kRounds;
    rest -= each;
    if (each < 1e-6) continue;
    fmt::print("| {} | {:.2f} | {:.1f} % |", op.name, each * 1e3, 100.0 * each / seconds);
    if (op.operations > 0.0) {
      const double flops = op.operations / op.seconds;
      const double rate = op.bytes / op.seconds;
      fmt::print(" {:.0f} | {:.0f} % | {:.1f} | {:.0f} % |\n", flops / 1e9,
                 100.0 * flops / peaks.operations, rate / 1e9, 100.0 * rate / peaks.bytes);
    } else {
      fmt::print(" | | | |\n");
    }
  }
  fmt::print("| between ops | {:.2f} | {:.1f} % | | | | |\n", rest * 1e3, 100.0 * rest / seconds);
}

void run_case(model::Decoder& decoder, int32_t sequences, int32_t new_tokens, const Peaks& peaks) {
  const bool decodes = new_tokens == 1;
  kv::PageLayout layout = decoder.facts().cache;
  layout.page_tokens = kPageTokens;
  const bench::FilledCache cache =
      take(bench::FilledCache::create(decoder, layout, sequences, kContext));
  bench::Step step = decodes ? bench::Step::decode(decoder, cache, sequences)
                             : bench::Step::prompt(decoder, cache, new_tokens, 0);
  step.run();
  for (OpTotal& op : timed().totals) op.seconds = op.operations = op.bytes = 0.0;
  const double seconds = bench::seconds_of([&] {
                           for (int round = 0; round < kRounds; ++round) step.run();
                         }) /
                         kRounds;
  print_case(decodes ? fmt::format("decode, {} at {} tokens of context", sequences, kContext)
                     : fmt::format("prefill, {} tokens", new_tokens),
             seconds, step.tokens(), peaks);
}

Peaks measure_peaks(device::Isa isa, device::ThreadPool& pool) {
  const kernels::VectorOps& ops =
      isa == device::Isa::kAvx2 ? kernels::kAvx2Ops : kernels::kAvx512Ops;
  const std::vector<float> memory(size_t{128} << 20, 1.0f);
  std::vector<double> operations;
  std::vector<double> bytes;
  for (int i = 0; i < kRounds; ++i) {
    operations.push_back(kernels::fma_rate(ops, pool));
    bytes.push_back(kernels::read_rate(ops, memory, pool));
  }
  return {kernels::spread_of(operations).median, kernels::spread_of(bytes).median};
}

}  // namespace

int main(int argc, char** argv) {
  const device::CpuFacts cpu = device::detect_cpu();
  const Options options = read_options(argc, argv, cpu);
  device::ThreadPool pool({.threads = options.threads});
  const model::Checkpoint checkpoint = take(model::Checkpoint::open(options.model));
  const kernels::KernelSet set = take(kernels::select_kernels(cpu, options.isa));
  const auto decoder =
      take(model::load_decoder(checkpoint, timed_set(set), pool,
                               {.rows_max = 512, .logits_rows_max = 64, .slices_max = 64}, {}));
  const Peaks peaks = measure_peaks(options.isa, pool);
  fmt::print("## {}, {}, {} threads\n\nPeaks: {:.0f} GFLOP/s of FMA, {:.1f} GB/s of reads.\n",
             checkpoint.name(), device::to_string(options.isa), options.threads,
             peaks.operations / 1e9, peaks.bytes / 1e9);
  run_case(*decoder, 1, kContext, peaks);
  for (const int32_t sequences : {1, 8, 32}) run_case(*decoder, sequences, 1, peaks);
  return 0;
}
