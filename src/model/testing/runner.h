// Runs decoders in tests: a cache with pages in any order, sequences cut at any place, on every ISA
// path this machine has.
//
// Threads: one test at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/cpu.h"
#include "device/thread_pool.h"
#include "kernels/kernel_set.h"
#include "model/checkpoint.h"
#include "model/decoder.h"
#include "model/loader.h"

namespace bulkhead::model::testing {

// A set of kernels that runs here.
struct KernelPath {
  std::string name;
  kernels::KernelSet kernels;
  bool tiles = false;  // products round activations to BF16 (kernels/gemm.h)
};

// Every path this machine has, weakest first; those it lacks are named on standard output. Where
// the matrix unit is lacking its products run on the emulated one.
std::vector<KernelPath> kernel_paths();
KernelPath reference_path();

struct LoadedModel {
  std::unique_ptr<device::ThreadPool> pool;
  std::unique_ptr<Decoder> decoder;
};

// A failure is a test failure and gives an empty model. Tests of many small steps use one thread:
// hand-overs between threads are dear on a busy machine.
LoadedModel load_model(const std::filesystem::path& path, const KernelPath& kernels,
                       StepLimits limits, unsigned threads,
                       const std::optional<WeightRecipe>& recipe = {},
                       kernels::Activations activations = kernels::Activations::kFp32);

// Pages whose unused slots are NaN: reading a slot that was not written shows in the logits.
class TestCache {
 public:
  TestCache(const ModelFacts& facts, int32_t page_tokens, int32_t pages,
            kv::PageFormat format = kv::PageFormat::kBf16);
  const kv::CacheView& view() const { return view_; }

 private:
  std::vector<std::byte> memory_;
  kv::CacheView view_;
};

// One sequence in a cache: the pages it owns and how much of it is there.
struct TestSequence {
  std::vector<TokenId> tokens;
  std::vector<kv::PageId> pages;
  int32_t done = 0;  // tokens in the cache

  // The next `count` tokens as a slice.
  SequenceSlice slice(int32_t count, LogitsFor logits) const;
};

// Logits of every position, [tokens][vocabulary], with the sequence cut into chunks of these sizes
// (the last one is repeated).
std::vector<float> all_logits(Decoder& decoder, const TestCache& cache, TestSequence sequence,
                              const std::vector<int32_t>& chunks);

// Pages for `tokens` tokens, ascending from `first`, or descending with a stride when scattered.
std::vector<kv::PageId> contiguous_pages(int32_t tokens, int32_t page_tokens, kv::PageId first);
std::vector<kv::PageId> scattered_pages(int32_t tokens, int32_t page_tokens, int32_t pages);

// `count` tokens of a vocabulary, a function of the seed.
std::vector<TokenId> random_tokens(int32_t count, int32_t vocabulary, uint64_t seed);

}  // namespace bulkhead::model::testing
