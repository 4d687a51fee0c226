// gemm over a tile unit: every number of rows goes through tiles, so that a row's bits do not
// depend on how many there are.
//
// Threads: as gemm.h says. Numerics: activations are rounded to BF16 (relative 2^-8 at most), then
// summed tile by tile of 32 k in the unit's order. INT4 weights are multiplied as BF16 of code
// times scale (another 2^-8 at most), a tile being one scale group.
#pragma once

#include "kernels/amx/tile_ops.h"
#include "kernels/gemm.h"

namespace bulkhead::kernels::amx {

void gemm(const TileOps& ops, const GemmArgs& args, device::ThreadPool& pool);
void gemm_group(const TileOps& ops, std::span<const GemmArgs> group, device::ThreadPool& pool);

}  // namespace bulkhead::kernels::amx
