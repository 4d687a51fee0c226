// What a prefix cache finds when requests come one after the other: the server's own index over
// pages that hold nothing.
//
// Threads: one. Invariants: a request takes, keeps and gives up pages in the order in which
// src/prefill and src/decode do for one that runs alone; an answer is like no prompt, and equal
// prompts have equal answers unless told otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "apps/bench/replay/replay_facts.h"
#include "base/result.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"

namespace bulkhead::apps {

class CacheSimulator {
 public:
  // Errors: kUnsupported for a shape that the index cannot have, kResourceExhausted.
  static base::Result<std::unique_ptr<CacheSimulator>> create(const CacheShape& shape);

  // One request from its first token to its last: how many tokens of its prompt it found. Nothing
  // for one that the cache cannot hold. With `own_answer` its answer is like that of no other
  // request, also of none with the same prompt.
  std::optional<int64_t> run(std::span<const int32_t> prompt, int64_t output_tokens,
                             bool own_answer = false);
  void clear();
  uint64_t evicted_pages() const { return index_.evicted_pages(); }

 private:
  CacheSimulator(std::unique_ptr<kv::PagePool> pool, bool keeps_answers);
  bool decode(std::span<const int32_t> prompt, int64_t output_tokens, uint64_t answer,
              kv::PageTable& table);

  const std::unique_ptr<kv::PagePool> pool_;
  kv::PrefixIndex index_;
  const bool keeps_answers_;
  uint64_t requests_ = 0;
};

}  // namespace bulkhead::apps
