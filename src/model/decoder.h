// A loaded model as the engine runs it: token rows in, cache pages read and written, logits out.
//
// Threads: forward() by one thread at a time (the step thread); facts() by any.
// Invariants: forward allocates nothing; a row's logits depend on its own sequence's tokens and
// pages only, bit for bit, whatever else is in the step and however the sequence was chunked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/layout.h"

namespace bulkhead::model {

using TokenId = int32_t;

enum class LogitsFor { kNone, kLast, kAll };

// One sequence's part of a step.
struct SequenceSlice {
  std::span<const TokenId> tokens;    // new tokens, at least one
  int32_t position = 0;               // of tokens[0] = tokens already in the cache
  std::span<const kv::PageId> pages;  // cover positions [0, position + tokens.size())
  LogitsFor logits = LogitsFor::kLast;
};

struct ModelFacts {
  std::string name;             // from the checkpoint, for /v1/models and the banner
  std::string family;           // "llama", "deepseek_v3", ...
  int32_t vocabulary_size = 0;  // width of a logits row
  int32_t context_tokens = 0;   // longest sequence the model was made for
  // What the model writes; page_tokens and format are the pool's to choose.
  kv::PageLayout cache;
  uint64_t parameters = 0;
  uint64_t weight_bytes = 0;  // as held in memory
  // As held in memory: a recipe's text (weight_recipe.h), or what the checkpoint's own formats
  // amount to; and what they are multiplied by, where that is not FP32: "int4 x int8". Two decoders
  // of one checkpoint and one kernel path compute alike where this is alike.
  std::string weight_format;
};

// What one step may ask of the model; buffers are sized for it at load.
struct StepLimits {
  int32_t rows_max = 512;        // token rows of one forward
  int32_t logits_rows_max = 64;  // rows that want logits in one forward
  int32_t slices_max = 64;       // sequences in one forward
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const ModelFacts& facts() const = 0;
  virtual const StepLimits& limits() const = 0;

  // Runs all slices. `logits` receives one row of vocabulary_size floats for every row that wants
  // them, slice by slice. The caller keeps within limits() and vocabulary; that is checked.
  virtual void forward(std::span<const SequenceSlice> slices, const kv::CacheView& cache,
                       std::span<float> logits) = 0;
};

}  // namespace bulkhead::model
