#include "model/testing/runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "kernels/amx/gemm_tiles.h"
#include "kernels/vector/gemm_int8.h"

namespace bulkhead::model::testing {

namespace {

// As on the real unit, activations in bytes take a vector path.
void emulated_gemm_group(std::span<const kernels::GemmArgs> group, device::ThreadPool& pool) {
  static const kernels::KernelSet vector =
      *kernels::select_kernels(device::detect_cpu(), device::best_isa(device::detect_cpu()));
  kernels::vector::for_each_kind(
      group, [&](std::span<const kernels::GemmArgs> products, bool in_bytes) {
        if (in_bytes) {
          vector.gemm_group(products, pool);
        } else {
          kernels::amx::gemm_group(kernels::kEmulatedTileOps, products, pool);
        }
      });
}

void emulated_gemm(const kernels::GemmArgs& args, device::ThreadPool& pool) {
  emulated_gemm_group({&args, 1}, pool);
}

}  // namespace

std::vector<KernelPath> kernel_paths() {
  const device::CpuFacts cpu = device::detect_cpu();
  std::vector<KernelPath> out;
  for (const kernels::IsaSupport& support : kernels::isa_support(cpu)) {
    const std::string name(device::to_string(support.isa));
    const bool tiles = support.isa == device::Isa::kAmx;
    if (support.runnable) {
      out.push_back({name, *kernels::select_kernels(cpu, support.isa), tiles});
      continue;
    }
    fmt::print("not run: {} ({})\n", name, support.reason);
    if (!tiles) continue;
    KernelPath emulated = {"amx emulated", out.back().kernels, true};
    emulated.kernels.gemm = emulated_gemm;
    emulated.kernels.gemm_group = emulated_gemm_group;
    out.push_back(std::move(emulated));
  }
  return out;
}

KernelPath reference_path() {
  return {"ref", *kernels::select_kernels(device::detect_cpu(), device::Isa::kRef), false};
}

LoadedModel load_model(const std::filesystem::path& path, const KernelPath& kernels,
                       StepLimits limits, unsigned threads,
                       const std::optional<WeightRecipe>& recipe,
                       kernels::Activations activations) {
  LoadedModel out;
  out.pool = std::make_unique<device::ThreadPool>(device::ThreadPoolOptions{.threads = threads});
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  if (!checkpoint.ok()) return out;
  auto decoder =
      load_decoder(*checkpoint, {recipe, activations}, kernels.kernels, *out.pool, limits, {});
  EXPECT_TRUE(decoder.ok()) << decoder.error().message;
  if (decoder.ok()) out.decoder = std::move(decoder).value();
  return out;
}

TestCache::TestCache(const ModelFacts& facts, int32_t page_tokens, int32_t pages,
                     kv::PageFormat format) {
  view_.layout = facts.cache;
  view_.layout.format = format;
  view_.layout.page_tokens = page_tokens;
  view_.pages = pages;
  constexpr size_t kAlign = 64;
  memory_.resize(view_.layout.page_bytes() * static_cast<size_t>(pages) + kAlign);
  std::memset(memory_.data(), 0xff, memory_.size());
  const size_t skew = reinterpret_cast<uintptr_t>(memory_.data()) % kAlign;
  view_.arena = memory_.data() + (kAlign - skew) % kAlign;
}

SequenceSlice TestSequence::slice(int32_t count, LogitsFor logits) const {
  return {
      .tokens = std::span(tokens).subspan(static_cast<size_t>(done), static_cast<size_t>(count)),
      .position = done,
      .pages = pages,
      .logits = logits};
}

std::vector<float> all_logits(Decoder& decoder, const TestCache& cache, TestSequence sequence,
                              const std::vector<int32_t>& chunks) {
  const auto vocabulary = static_cast<size_t>(decoder.facts().vocabulary_size);
  const auto total = static_cast<int32_t>(sequence.tokens.size());
  std::vector<float> out(static_cast<size_t>(total) * vocabulary);
  for (size_t i = 0; sequence.done < total; ++i) {
    const int32_t wanted = chunks[std::min(i, chunks.size() - 1)];
    const int32_t count = std::min(wanted, total - sequence.done);
    const SequenceSlice slice = sequence.slice(count, LogitsFor::kAll);
    decoder.forward({&slice, 1}, cache.view(),
                    std::span(out).subspan(static_cast<size_t>(sequence.done) * vocabulary,
                                           static_cast<size_t>(count) * vocabulary));
    sequence.done += count;
  }
  return out;
}

std::vector<kv::PageId> contiguous_pages(int32_t tokens, int32_t page_tokens, kv::PageId first) {
  std::vector<kv::PageId> out;
  for (int32_t i = 0; i * page_tokens < tokens; ++i) out.push_back(first + i);
  return out;
}

std::vector<kv::PageId> scattered_pages(int32_t tokens, int32_t page_tokens, int32_t pages) {
  std::vector<kv::PageId> out;
  const int32_t needed = (tokens + page_tokens - 1) / page_tokens;
  // Every third page from the end, then the ones between.
  for (int32_t phase = 0; phase < 3; ++phase) {
    for (int32_t page = pages - 1 - phase; page >= 0; page -= 3) out.push_back(page);
  }
  out.resize(static_cast<size_t>(needed));
  return out;
}

std::vector<TokenId> random_tokens(int32_t count, int32_t vocabulary, uint64_t seed) {
  base::Rng rng(seed);
  std::vector<TokenId> out;
  for (int32_t i = 0; i < count; ++i) {
    out.push_back(static_cast<TokenId>(rng.below(static_cast<uint64_t>(vocabulary))));
  }
  return out;
}

}  // namespace bulkhead::model::testing
