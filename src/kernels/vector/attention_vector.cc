#include <algorithm>

#include "base/check.h"
#include "kernels/vector/attention_unit.h"
#include "kernels/vector/drivers.h"

namespace bulkhead::kernels::vector {
namespace {

// Query rows of a unit in prefill: with head_dim 64 the scores (48 KiB), queries and outputs share
// half an L2 with the 64 KiB of K and V of a cut, each read from memory once per 48 rows.
constexpr int32_t kUnitRows = 48;
// Fewer units than this per thread: the cuts of a unit are shared out as well.
constexpr int64_t kUnitsPerThread = 4;
constexpr int64_t kItemsPerThread = 8;
// A worker's own part of scratch; the rest of worker 0's holds the partials of shared-out cuts.
constexpr size_t kPrivateBytes = size_t{2} << 20;

// Query heads of one key are dealt out in parts where they are many (multi-head latent attention):
// this many rows at most, and fewer where that gives idle threads something to do.
constexpr int32_t kPartRows = 64;
constexpr int32_t kSmallestPartRows = 16;

// The largest part of `heads` that divides them and is not above `limit`.
int32_t part_of(int32_t heads, int32_t limit) {
  int32_t part = std::min(heads, limit);
  while (heads % part != 0) --part;
  return part;
}

// All units of the call, in one row: slice by slice, part by part of the heads, block by block.
class Units {
 public:
  Units(const AttentionArgs& args, unsigned threads) : args_(args) {
    const int32_t heads = args.q_heads / args.kv.kv_heads;
    group_ = args.kv.latent_dim > 0 ? part_of(heads, kPartRows) : heads;
    measure();
    while (args.kv.latent_dim > 0 && count_ < threads && group_ > kSmallestPartRows) {
      group_ = part_of(heads, group_ - 1);
      measure();
    }
  }

  int64_t count() const { return count_; }
  int32_t cuts() const { return cuts_; }  // of the longest unit
  int64_t max_rows() const { return int64_t{std::min(longest_, unit_tokens())} * group_; }

  Unit at(int64_t index) const {
    const AttentionSlice* slice = args_.slices;
    int64_t here = blocks(*slice) * parts();
    while (index >= here) {
      index -= here;
      ++slice;
      here = blocks(*slice) * parts();
    }
    Unit unit;
    unit.slice = slice;
    unit.group = group_;
    unit.first_head = static_cast<int32_t>(index / blocks(*slice)) * group_;
    unit.kv_head = unit.first_head / (args_.q_heads / args_.kv.kv_heads);
    const auto block = static_cast<int32_t>(index % blocks(*slice));
    unit.first_token = block * unit_tokens();
    unit.tokens = std::min(unit_tokens(), slice->tokens - unit.first_token);
    if (args_.selected != nullptr) {
      unit.selected = args_.selected + unit.first_row() * args_.selection_stride;
      unit.selected_count = args_.selected_counts[unit.first_row()];
    }
    return unit;
  }

 private:
  int32_t parts() const { return args_.q_heads / group_; }
  int32_t unit_tokens() const {
    return args_.selected != nullptr ? 1 : std::max(1, kUnitRows / group_);
  }
  int64_t blocks(const AttentionSlice& slice) const {
    return (slice.tokens + unit_tokens() - 1) / unit_tokens();
  }
  void measure() {
    count_ = 0;
    for (int32_t s = 0; s < args_.slice_count; ++s) {
      const AttentionSlice& slice = args_.slices[s];
      count_ += blocks(slice) * parts();
      const int32_t end = slice.position + slice.tokens;
      if (slice.tokens > 0) cuts_ = std::max(cuts_, (end + kKvSplit - 1) / kKvSplit);
      longest_ = std::max(longest_, slice.tokens);
    }
  }

  const AttentionArgs& args_;
  int32_t group_ = 1;  // query heads of a unit
  int64_t count_ = 0;
  int32_t cuts_ = 0;
  int32_t longest_ = 0;
};

// Units [first, first + count), one after the other.
void attend_units(const VectorOps& ops, const AttentionArgs& args, const Units& units,
                  int64_t first, int64_t count, std::span<std::byte> scratch) {
  Unit unit = units.at(first);
  for (int64_t index = first; index < first + count; ++index) {
    const bool last_unit = index + 1 == first + count;
    const Unit following = last_unit ? Unit{} : units.at(index + 1);
    Workspace work(scratch, unit.rows(), args);
    load_queries(ops, args, unit, work);
    for (int32_t cut = 0; cut < unit.cuts(); ++cut) {
      NextCut next{&unit, cut + 1};
      if (next.cut == unit.cuts()) next = {last_unit ? nullptr : &following, 0};
      // The first cut's partial is the running one.
      const Partial& out = cut == 0 ? work.whole : work.cut;
      attend_cut(ops, args, unit, cut, next, work, out);
      if (cut > 0) merge_cut(ops, args, unit, cut, work.cut, work.whole);
    }
    write_out(ops, args, unit, work.whole);
    unit = following;
  }
}

// Memory shared by all workers: a running partial per unit, then `round` partials per unit.
struct SharedPartials {
  float* memory = nullptr;
  int64_t units = 0;
  int64_t rows = 0;
  int32_t value_dim = 0;
  int64_t round = 0;  // cuts whose partials fit at a time

  Partial at(int64_t index) const {
    return place_partial(memory + index * partial_floats(rows, value_dim), rows, value_dim);
  }
  Partial running(int64_t unit) const { return at(unit); }
  Partial of_cut(int64_t unit, int64_t cut_in_round) const {
    return at(units + unit * round + cut_in_round);
  }
};

SharedPartials share_scratch(const AttentionArgs& args, const Units& units,
                             device::ThreadPool& pool) {
  SharedPartials shared{nullptr, units.count(), units.max_rows(), args.kv.value_dim(), 0};
  const std::span<std::byte> all = pool.scratch(0);
  if (all.size() <= kPrivateBytes || units.count() >= kUnitsPerThread * pool.threads()) {
    return shared;
  }
  const std::span<std::byte> rest = all.subspan(kPrivateBytes);
  shared.memory = reinterpret_cast<float*>(rest.data());
  const auto fit = static_cast<int64_t>(rest.size() / sizeof(float)) /
                   partial_floats(shared.rows, shared.value_dim);
  shared.round = std::max<int64_t>(0, fit / units.count() - 1);
  return shared;
}

void attend_shared(const VectorOps& ops, const AttentionArgs& args, const Units& units,
                   const SharedPartials& shared, device::ThreadPool& pool) {
  const auto pieces_per_unit =
      static_cast<int32_t>((kUnitsPerThread * pool.threads() + units.count() - 1) / units.count());
  for (int32_t first = 0; first < units.cuts(); first += static_cast<int32_t>(shared.round)) {
    const auto cuts = static_cast<int32_t>(std::min<int64_t>(shared.round, units.cuts() - first));
    // Neighbouring cuts go to one worker, which fetches ahead from one to the next.
    const int32_t pieces = std::min(cuts, pieces_per_unit);
    pool.run(static_cast<size_t>(units.count() * pieces), [&](size_t item, unsigned worker) {
      const auto index = static_cast<int64_t>(item) / pieces;
      const auto piece = static_cast<int32_t>(static_cast<int64_t>(item) % pieces);
      const Unit unit = units.at(index);
      const int32_t begin = first + cuts * piece / pieces;
      const int32_t end = std::min(first + cuts * (piece + 1) / pieces, unit.cuts());
      if (begin >= end) return;
      std::span<std::byte> scratch = pool.scratch(worker);
      Workspace work(scratch.first(std::min(scratch.size(), kPrivateBytes)), unit.rows(), args);
      load_queries(ops, args, unit, work);
      for (int32_t cut = begin; cut < end; ++cut) {
        const NextCut next{cut + 1 < end ? &unit : nullptr, cut + 1};
        attend_cut(ops, args, unit, cut, next, work, shared.of_cut(index, cut - first));
      }
    });
    pool.run(static_cast<size_t>(units.count()), [&](size_t item, unsigned) {
      const auto index = static_cast<int64_t>(item);
      const Unit unit = units.at(index);
      const int32_t end = std::min(first + cuts, unit.cuts());
      for (int32_t cut = first; cut < end; ++cut) {
        merge_cut(ops, args, unit, cut, shared.of_cut(index, cut - first), shared.running(index));
      }
      if (end == unit.cuts()) write_out(ops, args, unit, shared.running(index));
    });
  }
}

}  // namespace

void attention(const VectorOps& ops, const AttentionArgs& args, device::ThreadPool& pool) {
  BH_CHECK(args.kv.kv_heads > 0 && args.q_heads % args.kv.kv_heads == 0,
           "query heads are a multiple of kv heads");
  BH_CHECK(args.kv.page_tokens > 0 && args.kv.page_tokens % 16 == 0,
           "page_tokens is a multiple of 16");
  const Units units(args, pool.threads());
  if (units.count() == 0) return;
  const SharedPartials shared = share_scratch(args, units, pool);
  if (units.cuts() > 1 && shared.round > 0) {
    attend_shared(ops, args, units, shared, pool);
    return;
  }
  // Short units are handed out several at a time, so that one is fetched while another is worked
  // on.
  const bool decodes = units.max_rows() <= ops.tile_rows;
  const int64_t per_item =
      decodes ? std::clamp<int64_t>(units.count() / (kItemsPerThread * pool.threads()), 1, 16) : 1;
  const int64_t items = (units.count() + per_item - 1) / per_item;
  pool.run(static_cast<size_t>(items), [&](size_t item, unsigned worker) {
    // From the back: later blocks of a prompt see more and take longer.
    const int64_t first = (items - 1 - static_cast<int64_t>(item)) * per_item;
    attend_units(ops, args, units, first, std::min(per_item, units.count() - first),
                 pool.scratch(worker));
  });
}

}  // namespace bulkhead::kernels::vector
