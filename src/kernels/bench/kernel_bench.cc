#include "kernels/bench/kernel_bench.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "base/json_writer.h"
#include "device/buffer.h"
#include "kernels/bench/peaks.h"
#include "kernels/kernel_set.h"
#include "kernels/kv_write.h"

namespace bulkhead::kernels {
namespace {

constexpr size_t kReadBytes = size_t{64} << 20;  // one sample of DRAM reads

// A kernel's own costs: which of the peaks forbids more follows from them.
struct Cost {
  double flops = 0.0;
  double memory_bytes = 0.0;  // from DRAM
  double l2_bytes = 0.0;      // from caches, for work on rows that were just written
};

struct Peaks {
  double compute = 0.0;
  double dram = 0.0;
  double l2 = 0.0;
};

// Of one attention.
struct Heads {
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t latent_dim = 0;

  std::string text() const {
    return latent_dim > 0
               ? fmt::format("{}q latent {}+{}", q_heads, latent_dim, head_dim - latent_dim)
               : fmt::format("{}q/{}kv d{}", q_heads, kv_heads, head_dim);
  }
  int32_t value_dim() const { return latent_dim > 0 ? latent_dim : head_dim; }
  // Products of one token of context.
  double flops() const { return 2.0 * q_heads * (head_dim + value_dim()); }
};

constexpr std::array kWeightFormats = {std::pair{WeightFormat::kBf16, "gemm"},
                                       std::pair{WeightFormat::kFp8, "gemm fp8"},
                                       std::pair{WeightFormat::kInt4, "gemm int4"}};
constexpr std::array kCacheFormats = {std::pair{CacheFormat::kBf16, ""},
                                      std::pair{CacheFormat::kFp8E4m3, " fp8"}};

template <typename Formats>
std::string_view name_of(const Formats& formats, decltype(Formats{}[0].first) format) {
  return std::ranges::find(formats, format, &Formats::value_type::first)->second;
}

class Bench {
 public:
  Bench(const BenchOptions& options, const device::CpuFacts& cpu, device::Buffer& weights,
        device::Buffer& cache, device::Buffer& rows, BenchReport& report)
      : options_(options),
        weights_(weights),
        cache_(cache),
        rows_(rows),
        report_(report),
        pool_({.threads = report.threads}),
        one_({.threads = 1, .scratch_bytes = 4096}),
        // Reading needs no FMA, so the widest loads of the machine are the yardstick for memory.
        reader_(device::available(cpu, device::Isa::kAvx512) ? kAvx512Ops : kAvx2Ops) {}

  void measure_peaks();
  void convert();
  void measure_path(const KernelSet& set);

 private:
  template <typename Sample>
  void peak(std::string name, std::string unit, unsigned threads, Sample sample);
  template <typename Once>
  void kernel(const KernelSet& set, std::string name, std::string shape, const Cost& cost,
              Once once);

  void gemm(const KernelSet& set, WeightFormat format, Activations activations, int64_t rows,
            int64_t n, int64_t k);
  void decode(const KernelSet& set, CacheFormat format, const Heads& heads, int32_t context,
              int32_t sequences);
  void prefill(const KernelSet& set, CacheFormat format, const Heads& heads, int32_t position,
               int32_t tokens);
  void row_wise(const KernelSet& set, int64_t rows);

  double compute_rate(const KernelSet& set, bool tiles);
  std::span<const float> some_memory();

  const BenchOptions& options_;
  device::Buffer& weights_;
  device::Buffer& cache_;
  device::Buffer& rows_;
  BenchReport& report_;
  device::ThreadPool pool_;
  device::ThreadPool one_;
  const VectorOps& reader_;
  size_t read_at_ = 0;
};

const VectorOps& vector_ops(const KernelSet& set) {
  return set.isa == device::Isa::kAvx2 ? kAvx2Ops : kAvx512Ops;
}

// The next stretch of weights, so that no sample reads what the one before left in cache.
std::span<const float> Bench::some_memory() {
  const size_t floats = std::min(kReadBytes, weights_.size()) / sizeof(float);
  const std::span<const float> all = std::as_const(weights_).as<float>();
  if (read_at_ + floats > all.size()) read_at_ = 0;
  const std::span<const float> piece = all.subspan(read_at_, floats);
  read_at_ += floats;
  return piece;
}

double Bench::compute_rate(const KernelSet& set, bool tiles) {
  if (tiles && set.isa == device::Isa::kAmx) return tile_rate(kAmxOps, pool_);
  return fma_rate(vector_ops(set), pool_);
}

template <typename Sample>
void Bench::peak(std::string name, std::string unit, unsigned threads, Sample sample) {
  std::vector<double> rates;
  for (int i = 0; i < options_.samples; ++i) rates.push_back(sample() / 1e9);
  const Spread spread = spread_of(rates);
  report_.peaks.push_back(
      {std::move(name), std::move(unit), threads, spread.median, spread.p10, spread.p90});
}

void Bench::measure_peaks() {
  for (device::ThreadPool* pool : {&one_, &pool_}) {
    peak("dram read", "GB/s", pool->threads(),
         [&] { return read_rate(reader_, some_memory(), *pool); });
    peak("l2 read", "GB/s", pool->threads(),
         [&] { return l2_rate(reader_, some_memory(), *pool); });
    if (pool_.threads() == 1) break;
  }
}

template <typename Once>
void Bench::kernel(const KernelSet& set, std::string name, std::string shape, const Cost& cost,
                   Once once) {
  // Products in bytes take the vector path everywhere. Held against FMA, they may pass it.
  const bool in_bytes = name.ends_with("int8");
  const bool tiles = name.starts_with("gemm") && !in_bytes && set.isa == device::Isa::kAmx;
  once();  // touches what it needs
  double begin = bench_seconds();
  once();
  const double estimate = std::max(1e-7, bench_seconds() - begin);
  const auto repeats = static_cast<int>(std::clamp(options_.sample_ms * 1e-3 / estimate, 1.0, 1e6));
  std::vector<double> times, compute, dram, l2;
  for (int i = 0; i < options_.samples; ++i) {
    compute.push_back(compute_rate(set, tiles));
    if (cost.memory_bytes > 0.0) dram.push_back(read_rate(reader_, some_memory(), pool_));
    if (cost.l2_bytes > 0.0) l2.push_back(l2_rate(reader_, some_memory(), pool_));
    begin = bench_seconds();
    for (int r = 0; r < repeats; ++r) once();
    times.push_back((bench_seconds() - begin) / repeats);
  }
  const Spread time = spread_of(times);
  BenchRow row;
  row.kernel = std::move(name);
  row.isa = device::to_string(set.isa);
  row.shape = std::move(shape);
  row.ms = time.median * 1e3;
  row.ms_p10 = time.p10 * 1e3;
  row.ms_p90 = time.p90 * 1e3;
  row.gflops = cost.flops / time.median / 1e9;
  row.gbytes = (cost.memory_bytes + cost.l2_bytes) / time.median / 1e9;
  const double least_compute = cost.flops / spread_of(compute).median;
  const double least_dram = dram.empty() ? 0.0 : cost.memory_bytes / spread_of(dram).median;
  const double least_l2 = l2.empty() ? 0.0 : cost.l2_bytes / spread_of(l2).median;
  const double least = std::max({least_compute, least_dram, least_l2});
  row.bound_by = least == least_compute ? (tiles ? "tiles" : "fma")
                 : least == least_dram  ? "dram"
                                        : "l2";
  row.share = least / time.median;
  report_.rows.push_back(std::move(row));
}

void Bench::gemm(const KernelSet& set, WeightFormat format, Activations activations, int64_t rows,
                 int64_t n, int64_t k) {
  const size_t bytes = packed_bytes(format, n, k);
  const auto matrices = static_cast<int64_t>(weights_.size() / bytes);
  if (matrices == 0) return;
  float* a = rows_.as<float>().data();
  float* c = a + rows * k;
  int64_t next = 0;
  const double weights = static_cast<double>(n) * static_cast<double>(k);
  std::string name(name_of(kWeightFormats, format));
  if (activations == Activations::kInt8) name += " x int8";
  kernel(set, std::move(name), fmt::format("{} x {} -> {}", rows, k, n),
         {.flops = 2.0 * static_cast<double>(rows) * weights,
          .memory_bytes = static_cast<double>(bytes),
          .l2_bytes = 0.0},
         [&] {
           const std::byte* data = weights_.data() + static_cast<size_t>(next++ % matrices) * bytes;
           set.gemm({.a = a,
                     .a_stride = k,
                     .rows = rows,
                     .w = {data, n, k, format},
                     .bias = nullptr,
                     .c = c,
                     .c_stride = n,
                     .accumulate = false,
                     .activations = activations},
                    pool_);
         });
}

constexpr int32_t kPageTokens = 64;

KvLayerView cache_view(device::Buffer& arena, CacheFormat format, const Heads& heads) {
  KvLayerView view;
  view.format = format;
  view.arena = arena.data();
  view.k_head_stride = kv_k_head_bytes(format, kPageTokens, heads.head_dim);
  view.v_offset = view.k_head_stride * static_cast<size_t>(heads.kv_heads);
  view.scale_offset = view.v_offset;
  if (heads.latent_dim == 0) {
    view.v_head_stride = kv_v_head_bytes(format, kPageTokens, heads.head_dim);
    view.scale_offset += view.v_head_stride * static_cast<size_t>(heads.kv_heads);
  }
  view.page_stride = view.scale_offset;
  if (format == CacheFormat::kFp8E4m3) view.page_stride += 2 * size_t{kPageTokens};
  view.page_tokens = kPageTokens;
  view.kv_heads = heads.kv_heads;
  view.head_dim = heads.head_dim;
  view.latent_dim = heads.latent_dim;
  return view;
}

// All pages of the arena in an order without neighbours.
std::vector<int32_t> scattered_pages(const KvLayerView& view, size_t arena_bytes) {
  const auto count = static_cast<int64_t>(arena_bytes / view.page_stride);
  int64_t step = count * 5 / 8 | 1;
  while (std::gcd(step, count) != 1) step += 2;
  std::vector<int32_t> pages;
  for (int64_t i = 0; i < count; ++i) pages.push_back(static_cast<int32_t>(i * step % count));
  return pages;
}

void Bench::decode(const KernelSet& set, CacheFormat format, const Heads& heads, int32_t context,
                   int32_t sequences) {
  const KvLayerView view = cache_view(cache_, format, heads);
  const std::vector<int32_t> pages = scattered_pages(view, cache_.size());
  const int32_t pages_each = context / kPageTokens;
  const auto sets = static_cast<int32_t>(pages.size()) / (pages_each * sequences);
  if (sets == 0) return;
  const int64_t row = int64_t{heads.q_heads} * heads.head_dim;
  float* q = rows_.as<float>().data();
  float* out = q + sequences * row;
  std::vector<AttentionSlice> slices(static_cast<size_t>(sequences));
  int32_t next = 0;
  const double tokens = static_cast<double>(context) * sequences;
  kernel(set, fmt::format("decode attention{}", name_of(kCacheFormats, format)),
         fmt::format("{} seq x {}, {}", sequences, context, heads.text()),
         {.flops = heads.flops() * tokens,
          .memory_bytes = static_cast<double>(view.page_stride) / kPageTokens * tokens,
          .l2_bytes = 0.0},
         [&] {
           const int32_t first = next++ % sets * sequences * pages_each;
           for (int32_t s = 0; s < sequences; ++s) {
             slices[static_cast<size_t>(s)] = {.first_row = s,
                                               .tokens = 1,
                                               .position = context - 1,
                                               .pages = pages.data() + first + s * pages_each};
           }
           set.attention({.kv = view,
                          .slices = slices.data(),
                          .slice_count = sequences,
                          .q = q,
                          .q_stride = row,
                          .out = out,
                          .out_stride = row,
                          .q_heads = heads.q_heads,
                          .scale = 0.125f},
                         pool_);
         });
}

void Bench::prefill(const KernelSet& set, CacheFormat format, const Heads& heads, int32_t position,
                    int32_t tokens) {
  const KvLayerView view = cache_view(cache_, format, heads);
  const std::vector<int32_t> pages = scattered_pages(view, cache_.size());
  if (static_cast<int32_t>(pages.size()) * kPageTokens < position + tokens) return;
  const int64_t row = int64_t{heads.q_heads} * heads.head_dim;
  float* q = rows_.as<float>().data();
  const AttentionSlice slice{
      .first_row = 0, .tokens = tokens, .position = position, .pages = pages.data()};
  const double seen = (position + (tokens + 1) / 2.0) * tokens;
  kernel(set, fmt::format("prefill attention{}", name_of(kCacheFormats, format)),
         fmt::format("{} tokens at {}, {}", tokens, position, heads.text()),
         {.flops = heads.flops() * seen, .memory_bytes = 0.0, .l2_bytes = 0.0}, [&] {
           set.attention({.kv = view,
                          .slices = &slice,
                          .slice_count = 1,
                          .q = q,
                          .q_stride = row,
                          .out = q + tokens * row,
                          .out_stride = row,
                          .q_heads = heads.q_heads,
                          .scale = 0.125f},
                         pool_);
         });
}

// Pages of BF16 from memory, turned into FP8 by one thread after another.
void Bench::convert() {
  const Heads latent{64, 1, 576, 512};
  const KvLayerView from = cache_view(cache_, CacheFormat::kBf16, latent);
  const KvLayerView to = cache_view(rows_, CacheFormat::kFp8E4m3, latent);
  const auto pages = static_cast<int32_t>(cache_.size() / from.page_stride);
  const auto places = static_cast<int32_t>(rows_.size() / to.page_stride);
  int32_t next = 0;
  peak("page to fp8", "GB/s", 1, [&] {
    constexpr int32_t kPages = 64;
    const double begin = bench_seconds();
    for (int32_t i = 0; i < kPages; ++i, ++next) {
      convert_page(from, next % pages, to, next % places, kPageTokens);
    }
    return static_cast<double>(from.page_stride) * kPages / (bench_seconds() - begin);
  });
}

void Bench::row_wise(const KernelSet& set, int64_t rows) {
  const int64_t width = 2048;
  float* x = rows_.as<float>().data();
  float* y = x + rows * width;
  float* z = y + rows * width;
  const auto bytes = static_cast<double>(rows * width * 4);
  const std::string shape = fmt::format("{} x {}", rows, width);
  kernel(set, "rms_norm", shape, {.flops = 0.0, .memory_bytes = 0.0, .l2_bytes = 2.0 * bytes}, [&] {
    set.rms_norm({.x = x,
                  .x_stride = width,
                  .out = y,
                  .out_stride = width,
                  .rows = rows,
                  .width = width,
                  .weight = z,
                  .eps = 1e-5f},
                 pool_);
  });
  kernel(set, "swiglu", shape, {.flops = 0.0, .memory_bytes = 0.0, .l2_bytes = 3.0 * bytes}, [&] {
    set.swiglu({.gate = x,
                .up = y,
                .out = z,
                .stride = width,
                .out_stride = width,
                .rows = rows,
                .width = width},
               pool_);
  });
}

void Bench::measure_path(const KernelSet& set) {
  const std::string path(device::to_string(set.isa));
  peak("fp32 fma " + path, "GFLOP/s", 1, [&] { return fma_rate(vector_ops(set), one_); });
  peak("fp32 fma " + path, "GFLOP/s", pool_.threads(),
       [&] { return fma_rate(vector_ops(set), pool_); });
  if (set.isa == device::Isa::kAmx) {
    peak("bf16 tiles", "GFLOP/s", pool_.threads(), [&] { return tile_rate(kAmxOps, pool_); });
  }
  const auto products = [&](WeightFormat format, Activations activations) {
    for (const int64_t rows : {1, 8, 32, 256, 512}) {
      gemm(set, format, activations, rows, 2048, 2048);
    }
    for (const int64_t rows : {1, 8, 512}) gemm(set, format, activations, rows, 5632, 2048);
    for (const int64_t rows : {1, 8, 512}) gemm(set, format, activations, rows, 2048, 5632);
  };
  for (const auto& [format, name] : kWeightFormats) products(format, Activations::kFp32);
  products(WeightFormat::kInt4, Activations::kInt8);
  const Heads grouped{32, 8, 64};
  const Heads small{9, 3, 64};
  for (const auto& [format, name] : kCacheFormats) {
    decode(set, format, grouped, 1024, 32);
    decode(set, format, grouped, 8192, 4);
    decode(set, format, grouped, 8192, 1);
    decode(set, format, small, 1024, 64);
    decode(set, format, small, 8192, 1);
    decode(set, format, {64, 1, 576, 512}, 1024, 8);
    prefill(set, format, grouped, 0, 512);
    prefill(set, format, grouped, 1536, 512);
    prefill(set, format, small, 1536, 512);
  }
  row_wise(set, 1);
  row_wise(set, 256);
}

void fill(device::Buffer& buffer, device::ThreadPool& pool, uint32_t mask) {
  // Finite BF16 values of both signs near 2^-8, or as floats near 2^-8: no kernel meets a denormal.
  const std::span<uint32_t> words = buffer.as<uint32_t>();
  constexpr size_t kPiece = size_t{1} << 18;
  pool.run((words.size() + kPiece - 1) / kPiece, [&](size_t item, unsigned) {
    uint32_t state = static_cast<uint32_t>(item) * 747796405u + 1u;
    const size_t end = std::min(words.size(), (item + 1) * kPiece);
    for (size_t i = item * kPiece; i < end; ++i) {
      state = state * 1664525u + 1013904223u;
      words[i] = (state & mask) | 0x3b803b80u;
    }
  });
}

void print_text(const BenchReport& report, std::ostream& out) {
  fmt::print(out, "{}, {} threads, medians of {} samples [p10..p90]\n\n", report.machine,
             report.threads, report.samples);
  fmt::print(out, "{:<20} {:>8} {:>10}\n", "machine peak", "threads", "");
  for (const BenchPeak& p : report.peaks) {
    fmt::print(out, "{:<20} {:>8} {:>10.1f} {} [{:.1f}..{:.1f}]\n", p.name, p.threads, p.median,
               p.unit, p.p10, p.p90);
  }
  fmt::print(out, "\n{:<7} {:<18} {:<34} {:>9} {:>8} {:>22} {:>11}\n", "path", "kernel", "shape",
             "GFLOP/s", "GB/s", "ms", "share");
  for (const BenchRow& row : report.rows) {
    fmt::print(out,
               "{:<7} {:<18} {:<34} {:>9.1f} {:>8.1f} {:>8.3f} [{:.3f}..{:.3f}] {:>4.0f} % {}\n",
               row.isa, row.kernel, row.shape, row.gflops, row.gbytes, row.ms, row.ms_p10,
               row.ms_p90, row.share * 100.0, row.bound_by);
  }
  for (const std::string& reason : report.not_run) fmt::print(out, "not run: {}\n", reason);
}

void print_json(const BenchReport& report, std::ostream& out) {
  base::JsonWriter json;
  json.begin_object().key("machine").value(report.machine);
  json.key("threads").value(report.threads).key("samples").value(report.samples);
  json.key("peaks").begin_array();
  for (const BenchPeak& p : report.peaks) {
    json.begin_object().key("name").value(p.name).key("unit").value(p.unit);
    json.key("threads").value(p.threads).key("median").value(p.median);
    json.key("p10").value(p.p10).key("p90").value(p.p90).end_object();
  }
  json.end_array().key("kernels").begin_array();
  for (const BenchRow& row : report.rows) {
    json.begin_object().key("kernel").value(row.kernel).key("isa").value(row.isa);
    json.key("shape").value(row.shape).key("gflops").value(row.gflops);
    json.key("gbytes_per_s").value(row.gbytes).key("ms").value(row.ms);
    json.key("ms_p10").value(row.ms_p10).key("ms_p90").value(row.ms_p90);
    json.key("bound_by").value(row.bound_by).key("share").value(row.share).end_object();
  }
  json.end_array().key("not_run").begin_array();
  for (const std::string& reason : report.not_run) json.value(reason);
  json.end_array().end_object();
  out << json.text() << '\n';
}

}  // namespace

base::Result<BenchReport> measure_kernels(const BenchOptions& options) {
  const device::CpuFacts cpu = device::detect_cpu();
  if (!device::available(cpu, device::Isa::kAvx2)) {
    return base::unsupported("kernel benches need a processor with AVX2");
  }
  if (options.samples < 1 || options.memory_bytes < (size_t{1} << 20)) {
    return base::invalid_argument("bench", "needs at least 1 sample and 1 MiB of memory");
  }
  BenchReport report;
  report.machine = cpu.model_name;
  report.threads = options.threads > 0 ? options.threads : cpu.logical_cpus;
  report.samples = options.samples;
  std::vector<KernelSet> sets;
  for (const device::Isa isa : {device::Isa::kAvx2, device::Isa::kAvx512, device::Isa::kAmx}) {
    if (options.only_isa.has_value() && *options.only_isa != isa) continue;
    base::Result<KernelSet> set = select_kernels(cpu, isa);
    if (set.ok()) {
      sets.push_back(std::move(set).value());
    } else {
      report.not_run.push_back(set.error().message);
    }
  }
  constexpr size_t kRowBytes = size_t{64} << 20;
  BH_ASSIGN(device::Buffer weights, device::Buffer::allocate(options.memory_bytes));
  BH_ASSIGN(device::Buffer cache, device::Buffer::allocate(options.memory_bytes));
  BH_ASSIGN(device::Buffer rows, device::Buffer::allocate(kRowBytes));
  {
    device::ThreadPool filler({.threads = report.threads, .scratch_bytes = 4096});
    for (device::Buffer* buffer : {&weights, &cache, &rows}) fill(*buffer, filler, 0x807f807fu);
  }
  Bench bench(options, cpu, weights, cache, rows, report);
  bench.measure_peaks();
  bench.convert();
  for (const KernelSet& set : sets) bench.measure_path(set);
  return report;
}

void print_report(const BenchReport& report, bool json, std::ostream& out) {
  json ? print_json(report, out) : print_text(report, out);
}

}  // namespace bulkhead::kernels
