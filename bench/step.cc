// What a forward pass is made of: the share of each op in a step, and how near each comes to the
// machine's own peak.
//
//     cmake --build --preset release --target bench_step
//     build/release/bin/bench_step build/bench/mini-K [--isa avx2] [--threads 2]
//         [--weights int4] [--activations int8] [--kv fp8_e4m3] > step.md
//
// Threads: the pool's. Every op of the kernel set is called through a timer; what is left is time
// between ops (routing, gathering, norms without an op of their own). Operations and bytes are
// counted from the arguments, so a share of the bound is of the work asked for, padding not
// counted.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "bench/op_timer.h"
#include "bench/steps.h"
#include "device/cpu.h"
#include "model/checkpoint.h"
#include "model/loader.h"

namespace {

using namespace bulkhead;
using kernels::Activations;
constexpr int32_t kPageTokens = 64;
constexpr int32_t kContext = 512;  // tokens that every decoding sequence has in the cache
constexpr int kRounds = 5;

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
  model::LoadOptions load;
  kv::PageFormat cache = kv::PageFormat::kBf16;
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
    } else if (word == "--weights" && has_value) {
      out.load.weights = take(model::parse_recipe(argv[++i]));
    } else if (word == "--activations" && has_value) {
      const bool int8 = std::string_view(argv[++i]) == model::to_string(Activations::kInt8);
      out.load.activations = int8 ? Activations::kInt8 : Activations::kFp32;
    } else if (word == "--kv" && has_value) {
      const std::string_view name = argv[++i];
      const bool fp8 = name == kv::to_string(kv::PageFormat::kFp8E4m3);
      out.cache = fp8 ? kv::PageFormat::kFp8E4m3 : kv::PageFormat::kBf16;
    } else {
      out.model = word;
    }
  }
  if (out.model.empty()) {
    std::fprintf(stderr,
                 "usage: bench_step CHECKPOINT [--isa NAME] [--threads N] [--weights RECIPE] "
                 "[--activations fp32|int8] [--kv bf16|fp8_e4m3]\n");
    std::exit(2);
  }
  return out;
}

void print_case(const std::string& title, double seconds, int32_t tokens,
                const bench::Peaks& peaks) {
  fmt::print("\n### {}: {:.1f} ms a step, {:.1f} tokens/s\n\n", title, seconds * 1e3,
             tokens / seconds);
  fmt::print(
      "| op | ms | share of the step | GFLOP/s | of FMA | GB/s | of reads |\n"
      "|---|---|---|---|---|---|---|\n");
  double rest = seconds;
  for (const bench::OpTotal& op : bench::op_totals()) {
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

void run_case(model::Decoder& decoder, kv::PageFormat format, int32_t sequences, int32_t new_tokens,
              const bench::Peaks& peaks) {
  const bool decodes = new_tokens == 1;
  kv::PageLayout layout = decoder.facts().cache;
  layout.page_tokens = kPageTokens;
  layout.format = format;
  const bench::FilledCache cache =
      take(bench::FilledCache::create(decoder, layout, sequences, kContext));
  bench::Step step = decodes ? bench::Step::decode(decoder, cache, sequences)
                             : bench::Step::prompt(decoder, cache, new_tokens, 0);
  step.run();
  bench::reset_op_totals();
  const double seconds = bench::seconds_of([&] {
                           for (int round = 0; round < kRounds; ++round) step.run();
                         }) /
                         kRounds;
  print_case(decodes ? fmt::format("decode, {} at {} tokens of context", sequences, kContext)
                     : fmt::format("prefill, {} tokens", new_tokens),
             seconds, step.tokens(), peaks);
}

}  // namespace

int main(int argc, char** argv) {
  const device::CpuFacts cpu = device::detect_cpu();
  const Options options = read_options(argc, argv, cpu);
  device::ThreadPool pool({.threads = options.threads});
  const model::Checkpoint checkpoint = take(model::Checkpoint::open(options.model));
  const kernels::KernelSet set = take(kernels::select_kernels(cpu, options.isa));
  const auto decoder =
      take(model::load_decoder(checkpoint, options.load, bench::timed_set(set), pool,
                               {.rows_max = 512, .logits_rows_max = 64, .slices_max = 64}, {}));
  const bench::Peaks peaks = bench::measure_peaks(options.isa, pool);
  fmt::print(
      "## {}, {} weights, {} cache, {}, {} threads\n\nPeaks: {:.0f} GFLOP/s of FMA, {:.1f} GB/s of "
      "reads.\n",
      checkpoint.name(), decoder->facts().weight_format, kv::to_string(options.cache),
      device::to_string(options.isa), options.threads, peaks.operations / 1e9, peaks.bytes / 1e9);
  run_case(*decoder, options.cache, 1, kContext, peaks);
  for (const int32_t sequences : {1, 8, 32}) run_case(*decoder, options.cache, sequences, 1, peaks);
  return 0;
}
