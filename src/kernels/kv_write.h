// The writers of pages, one form for every path: rounding and scattering new tokens, turning BF16
// pages into FP8 pages, and clearing slots.
//
// Threads: kv_write: one caller at a time, the one that owns the pool. convert_page, clear_slots:
// any thread, on pages that nobody else writes.
#pragma once

#include "kernels/attention.h"

namespace bulkhead::kernels {

void kv_write(const KvWriteArgs& args, device::ThreadPool& pool);

// One layer's first `tokens` slots of BF16 page `from_page` into FP8 page `to_page`, with the bytes
// that kv_write gives for the values that the BF16 page holds. The two views have one shape; their
// arenas may be any memory that holds whole pages. Slots beyond `tokens` that share a line with one
// of them are written too; they hold nothing.
void convert_page(const KvLayerView& from, int32_t from_page, const KvLayerView& to,
                  int32_t to_page, int32_t tokens);

// Zeroes the slots of one layer of page `page` from slot `first` on, in either format: of what was
// there before nothing is left.
void clear_slots(const KvLayerView& kv, int32_t page, int32_t first);

}  // namespace bulkhead::kernels
