#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "kernels/vector/drivers.h"
#include "kernels/vector/gemm_int4.h"
#include "kernels/vector/gemm_int8.h"
#include "kernels/vector/weight_path.h"

namespace bulkhead::kernels::vector {
namespace {

// A row block's slice of A (256 rows x 256 k x 4 B = 256 KiB) stays in half of a 512 KiB L2 while
// the panels of an item pass over it.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockK = 256;
// Up to here the whole of A stays in L2 as it lies, and each panel is streamed from end to end.
constexpr int64_t kResidentFloats = 64 << 10;
constexpr int64_t kMaxItemPanels = 32;
// Hand-outs per thread: enough that a late thread costs little; fewer where each packs rows first.
constexpr int64_t kItemsPerThread = 8;
constexpr int64_t kPackedItemsPerThread = 4;

int64_t round_down(int64_t value, int64_t unit) { return value / unit * unit; }

// A scale group written out: its factors, then its lines in BF16.
constexpr int64_t kCodeLineBytes = 64;
int64_t expanded_group_bytes(const WeightPath& path) {
  return kCodeLineBytes + path.group_k * kPanelColumns * static_cast<int64_t>(sizeof(quant::Bf16));
}
int64_t expanded_panel_bytes(const WeightPath& path) {
  return kBlockK / path.group_k * expanded_group_bytes(path);
}
// Rows of lifted factors stand so far apart: not a power of two, which would share few cache sets.
int64_t lifted_stride(int64_t k) { return (k + 15) / 16 * 16 + 16; }

struct Plan {
  WeightPath path;
  int64_t row_blocks;
  int64_t block_rows;
  int64_t item_panels;
  int64_t groups;  // of panels
  bool packs_rows;
  bool expands;
  bool lifts_rows;
};

// For one of `products` products that are dealt out together.
Plan make_plan(const VectorOps& ops, const GemmArgs& args, unsigned threads, int64_t products) {
  Plan plan{};
  if (args.rows <= 0 || args.w.n <= 0) return plan;
  BH_CHECK(args.w.k > 0, "gemm over no k");
  BH_CHECK(!args.accumulate || args.bias == nullptr, "gemm starts from c or from a bias, not both");
  plan.path = weight_path(ops, args.w);
  plan.row_blocks = (args.rows + kBlockRows - 1) / kBlockRows;
  plan.block_rows = (args.rows + plan.row_blocks - 1) / plan.row_blocks;
  plan.expands = plan.path.expand != nullptr && plan.block_rows > plan.path.few_rows;
  const bool lifts = plan.path.lift != 1.0f;
  // Rows that are lifted whole are a copy of them: it stays small however long they are.
  plan.packs_rows = plan.expands || ((lifts || plan.block_rows > ops.tile_rows) &&
                                     plan.block_rows * args.w.k > kResidentFloats);
  plan.lifts_rows = lifts && !plan.packs_rows;
  const bool int4_few = plan.path.is_int4 && int4_few_rows(ops, plan.block_rows);
  if (plan.path.is_int4) plan.packs_rows = !int4_few;
  const int64_t panels = packed_panels(args.w.n);
  const int64_t side =
      int4_few ? ops.int4_panels_at_once(plan.block_rows) : ops.panels_at_once(plan.block_rows);
  const int64_t items = threads * (plan.packs_rows ? kPackedItemsPerThread : kItemsPerThread);
  const int64_t groups = std::max<int64_t>(1, items / (plan.row_blocks * products));
  plan.item_panels = std::clamp(round_down(panels / groups, side), side, kMaxItemPanels);
  plan.groups = (panels + plan.item_panels - 1) / plan.item_panels;
  return plan;
}

// A row block times some panels, all 16 columns of each present in c.
struct Block {
  const VectorOps& ops;
  const GemmArgs& args;
  int64_t row;
  int64_t rows;
  const Plan& plan;
  const float* a;  // the rows' first k, where the plan does not pack them
  int64_t a_stride;
  float* packed;        // room for rows * kBlockK floats where the plan packs rows, else null
  std::byte* expanded;  // room for panels_at_once() panels of kBlockK k where it expands them
  std::span<float> int4_room;
  std::array<const std::byte*, kMaxItemPanels> panels;
  int64_t panel_count;
};

// What the sums start from, and where they go.
struct Target {
  const float* start;
  int64_t start_stride;
  float* c;
  int64_t c_stride;
};

// The part of a product that all formats share: panels [first, first + count) over k in
// [begin, end); begin is a multiple of kBlockK.
PanelProduct product_of(const Block& block, int64_t first, int64_t count, int64_t begin,
                        int64_t end, const Target& target) {
  const bool packed = block.packed != nullptr;
  // Later k continue the sums that the earlier ones left in c.
  const float* start = begin > 0 ? target.c : target.start;
  return {.a = packed ? block.packed : block.a + begin,
          .a_stride = packed ? kBlockK : block.a_stride,
          .rows = block.rows,
          .panels = count,
          .k_begin = 0,
          .k_end = end - begin,
          .start = start != nullptr ? start + first * kPanelColumns : nullptr,
          .start_stride = begin > 0 ? target.c_stride : target.start_stride,
          .c = target.c + first * kPanelColumns,
          .c_stride = target.c_stride};
}

// Where panel `index` of the block has its k from `begin` on.
const std::byte* stretch(const Block& block, int64_t index, int64_t begin) {
  const WeightPath& path = block.plan.path;
  const int64_t at = path.group_k > 0 ? begin / path.group_k * path.group_bytes
                                      : begin * kPanelColumns * int64_t{sizeof(quant::Bf16)};
  return block.panels[static_cast<size_t>(index)] + at;
}

// As the codes stand in the panels.
void multiply_range(const Block& block, int64_t first, int64_t count, int64_t begin, int64_t end,
                    const Target& target) {
  const WeightPath& path = block.plan.path;
  PanelProduct product = product_of(block, first, count, begin, end, target);
  // Packed rows take a stretch of k through all panels: the next panel's is fetched ahead, and
  // after the last panel the first one's next stretch.
  std::array<const void*, kMaxItemPanels + 1> runs;
  std::array<const void*, kMaxItemPanels> scales;
  for (int64_t p = 0; p < count; ++p) {
    const std::byte* at = stretch(block, first + p, begin);
    runs[static_cast<size_t>(p)] = at + path.group_lines_at;
    scales[static_cast<size_t>(p)] = at;
  }
  runs[static_cast<size_t>(count)] = stretch(block, first, end);
  product.runs = runs.data();
  if (path.group_k > 0) {
    product.scales = scales.data();
    product.run_stride = path.group_bytes;
    product.run_k = path.group_k;
  } else {
    product.run_k = packed_pairs(block.args.w.k) * 2;
    product.ahead = block.packed != nullptr ? runs.data() + 1 : nullptr;
  }
  path.multiply(product);
}

// Writes panel `index` over k in [begin, end) out as BF16, each group behind its factors.
void expand_panel(const Block& block, int64_t index, int64_t begin, int64_t end, std::byte* out) {
  const WeightPath& path = block.plan.path;
  const bool last = index + 1 == block.panel_count;
  const std::byte* from = stretch(block, index, begin);
  const std::byte* ahead = last ? stretch(block, 0, end) : stretch(block, index + 1, begin);
  for (int64_t k = begin; k < end; k += path.group_k) {
    std::copy_n(from, kCodeLineBytes, out);
    path.expand(from + path.group_lines_at, std::min(path.group_k, end - k), block.ops, ahead,
                out + kCodeLineBytes);
    from += path.group_bytes;
    ahead += path.group_bytes;
    out += expanded_group_bytes(path);
  }
}

// The same product over panels that are written out first, a few at a time.
void multiply_expanded(const Block& block, int64_t begin, int64_t end, const Target& target) {
  const WeightPath& path = block.plan.path;
  const int64_t side = block.ops.panels_at_once(block.rows);
  for (int64_t first = 0; first < block.panel_count; first += side) {
    const int64_t count = std::min(side, block.panel_count - first);
    PanelProduct product = product_of(block, first, count, begin, end, target);
    std::array<const void*, kMaxItemPanels> runs;
    std::array<const void*, kMaxItemPanels> scales;
    for (int64_t p = 0; p < count; ++p) {
      std::byte* out = block.expanded + p * expanded_panel_bytes(path);
      expand_panel(block, first + p, begin, end, out);
      scales[static_cast<size_t>(p)] = out;
      runs[static_cast<size_t>(p)] = out + kCodeLineBytes;
    }
    product.runs = runs.data();
    product.scales = scales.data();
    product.run_stride = expanded_group_bytes(path);
    product.run_k = path.group_k;
    block.ops.multiply(product);
  }
}

// Rows of a power-of-two stride share few cache sets: side by side they fit L1 and L2.
void pack_rows_of_a(const Block& block, int64_t begin, int64_t end) {
  const float lift = block.plan.path.lift;
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* from = block.a + r * block.a_stride + begin;
    float* to = block.packed + r * kBlockK;
    if (lift == 1.0f) {
      std::copy_n(from, end - begin, to);
    } else {
      block.ops.scale(from, lift, to, end - begin);
    }
  }
}

void multiply_int4(const Block& block, const Target& target) {
  std::array<const uint8_t*, kMaxItemPanels> codes;
  for (int64_t p = 0; p < block.panel_count; ++p) {
    const auto at = static_cast<size_t>(p);
    codes[at] = reinterpret_cast<const uint8_t*>(block.panels[at]);
  }
  multiply_int4_block(block.ops,
                      {.a = block.a,
                       .a_stride = block.a_stride,
                       .rows = block.rows,
                       .codes = codes.data(),
                       .panels = block.panel_count,
                       .k = block.args.w.k,
                       .start = target.start,
                       .start_stride = target.start_stride,
                       .c = target.c,
                       .c_stride = target.c_stride},
                      block.int4_room);
}

void multiply_block(const Block& block, const Target& target) {
  if (block.plan.path.is_int4) return multiply_int4(block, target);
  const int64_t k = block.args.w.k;
  if (block.packed == nullptr &&
      block.rows <= std::max(block.ops.tile_rows, block.plan.path.few_rows)) {
    // One tile of rows: every weight is used once, nothing is worth keeping.
    multiply_range(block, 0, block.panel_count, 0, k, target);
    return;
  }
  if (block.packed != nullptr) {
    for (int64_t begin = 0; begin < k; begin += kBlockK) {
      const int64_t end = std::min(k, begin + kBlockK);
      pack_rows_of_a(block, begin, end);
      if (block.plan.expands) {
        multiply_expanded(block, begin, end, target);
      } else {
        multiply_range(block, 0, block.panel_count, begin, end, target);
      }
    }
    return;
  }
  const int64_t side = block.ops.panels_at_once(block.rows);
  for (int64_t first = 0; first < block.panel_count; first += side) {
    const int64_t count = std::min(side, block.panel_count - first);
    for (int64_t begin = 0; begin < k; begin += kBlockK) {
      multiply_range(block, first, count, begin, std::min(k, begin + kBlockK), target);
    }
  }
}

// The last panel where n is no multiple of 16: computed beside c, then its real columns copied.
void multiply_ragged(const Block& block, int64_t column, float* beside) {
  const GemmArgs& args = block.args;
  const int64_t columns = args.w.n - column;
  std::fill_n(beside, block.rows * kPanelColumns, 0.0f);
  if (args.accumulate || args.bias != nullptr) {
    for (int64_t r = 0; r < block.rows; ++r) {
      const float* from = args.accumulate ? args.c + (block.row + r) * args.c_stride : args.bias;
      std::copy_n(from + column, columns, beside + r * kPanelColumns);
    }
  }
  multiply_block(block, {beside, kPanelColumns, beside, kPanelColumns});
  for (int64_t r = 0; r < block.rows; ++r) {
    std::copy_n(beside + r * kPanelColumns, columns,
                args.c + (block.row + r) * args.c_stride + column);
  }
}

std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// A worker's memory for one item, carved out of its scratch.
struct Space {
  float* rows;    // packed or lifted
  float* beside;  // of a ragged panel
  std::byte* expanded;
  std::span<float> int4_room;

  Space(const VectorOps& ops, const Plan& plan, int64_t k, std::span<float> scratch) {
    // INT4 carves its own room behind a ragged panel.
    const int64_t row_floats =
        plan.path.is_int4 ? 0 : plan.block_rows * (plan.lifts_rows ? lifted_stride(k) : kBlockK);
    const int64_t ragged_floats = plan.block_rows * kPanelColumns;
    const int64_t expanded_bytes =
        plan.expands ? ops.panels_at_once(plan.block_rows) * expanded_panel_bytes(plan.path) : 0;
    const int64_t floats =
        row_floats + ragged_floats + expanded_bytes / static_cast<int64_t>(sizeof(float));
    BH_CHECK(scratch.size() >= static_cast<size_t>(floats),
             "a worker's scratch is too small for gemm");
    rows = scratch.data();
    beside = rows + row_floats;
    expanded = reinterpret_cast<std::byte*>(beside + ragged_floats);
    if (plan.path.is_int4) int4_room = scratch.subspan(static_cast<size_t>(ragged_floats));
  }
};

void run_item(const VectorOps& ops, const GemmArgs& args, const Plan& plan, int64_t item,
              std::span<float> scratch) {
  const Space space(ops, plan, args.w.k, scratch);
  const int64_t first_row = item / plan.groups * plan.block_rows;
  const int64_t first = item % plan.groups * plan.item_panels;
  const int64_t last = std::min(first + plan.item_panels, packed_panels(args.w.n));
  const int64_t whole = std::min(last, args.w.n / kPanelColumns);
  Block block{ops,
              args,
              first_row,
              std::min(plan.block_rows, args.rows - first_row),
              plan,
              args.a + first_row * args.a_stride,
              args.a_stride,
              plan.packs_rows ? space.rows : nullptr,
              space.expanded,
              space.int4_room,
              {},
              0};
  if (plan.lifts_rows) {
    for (int64_t r = 0; r < block.rows; ++r) {
      ops.scale(block.a + r * args.a_stride, plan.path.lift,
                space.rows + r * lifted_stride(args.w.k), args.w.k);
    }
    block.a = space.rows;
    block.a_stride = lifted_stride(args.w.k);
  }
  for (int64_t panel = first; panel < whole; ++panel) {
    block.panels[static_cast<size_t>(block.panel_count++)] =
        args.w.data + panel * plan.path.panel_bytes;
  }
  if (block.panel_count > 0) {
    float* c = args.c + first_row * args.c_stride + first * kPanelColumns;
    const float* bias = args.bias != nullptr ? args.bias + first * kPanelColumns : nullptr;
    multiply_block(
        block, {args.accumulate ? c : bias, args.accumulate ? args.c_stride : 0, c, args.c_stride});
  }
  if (whole < last) {
    block.panels[0] = args.w.data + whole * plan.path.panel_bytes;
    block.panel_count = 1;
    multiply_ragged(block, whole * kPanelColumns, space.beside);
  }
}

void gemm_group_floats(const VectorOps& ops, std::span<const GemmArgs> group,
                       device::ThreadPool& pool) {
  while (!group.empty()) {
    const std::span<const GemmArgs> turn = group.first(std::min(group.size(), kGemmGroupMax));
    group = group.subspan(turn.size());
    const auto products = static_cast<int64_t>(
        std::ranges::count_if(turn, [](const GemmArgs& args) { return args.rows > 0; }));
    std::array<Plan, kGemmGroupMax> plans;
    std::array<int64_t, kGemmGroupMax> ends;
    int64_t items = 0;
    for (size_t i = 0; i < turn.size(); ++i) {
      plans[i] = make_plan(ops, turn[i], pool.threads(), products);
      ends[i] = items += plans[i].row_blocks * plans[i].groups;
    }
    pool.run(static_cast<size_t>(items), [&](size_t item, unsigned worker) {
      const auto index = static_cast<int64_t>(item);
      const auto last = ends.begin() + static_cast<std::ptrdiff_t>(turn.size());
      const auto at =
          static_cast<size_t>(std::upper_bound(ends.begin(), last, index) - ends.begin());
      const int64_t first = at == 0 ? 0 : ends[at - 1];
      run_item(ops, turn[at], plans[at], index - first, floats(pool.scratch(worker)));
    });
  }
}

}  // namespace

void gemm_group(const VectorOps& ops, std::span<const GemmArgs> group, device::ThreadPool& pool) {
  for_each_kind(group, [&](std::span<const GemmArgs> products, bool in_bytes) {
    if (in_bytes) {
      gemm_group_int8(ops, products, pool);
    } else {
      gemm_group_floats(ops, products, pool);
    }
  });
}

void gemm(const VectorOps& ops, const GemmArgs& args, device::ThreadPool& pool) {
  gemm_group(ops, {&args, 1}, pool);
}

}  // namespace bulkhead::kernels::vector
