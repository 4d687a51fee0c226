#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "kernels/vector/drivers.h"

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

struct Plan {
  int64_t row_blocks;
  int64_t block_rows;
  int64_t item_panels;
  int64_t groups;  // of panels
  bool packs_rows;
};

// For one of `products` products that are dealt out together.
Plan make_plan(const VectorOps& ops, const GemmArgs& args, unsigned threads, int64_t products) {
  Plan plan{};
  if (args.rows <= 0 || args.w.n <= 0) return plan;
  BH_CHECK(args.w.k > 0, "gemm over no k");
  BH_CHECK(!args.accumulate || args.bias == nullptr, "gemm starts from c or from a bias, not both");
  plan.row_blocks = (args.rows + kBlockRows - 1) / kBlockRows;
  plan.block_rows = (args.rows + plan.row_blocks - 1) / plan.row_blocks;
  plan.packs_rows = plan.block_rows > ops.tile_rows && plan.block_rows * args.w.k > kResidentFloats;
  const int64_t panels = packed_panels(args.w.n);
  const int64_t side = ops.panels_at_once(plan.block_rows);
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
  float* packed;  // room for rows * kBlockK floats where the plan packs rows, else null
  std::array<const quant::Bf16*, kMaxItemPanels> panels;
  int64_t panel_count;
};

// What the sums start from, and where they go.
struct Target {
  const float* start;
  int64_t start_stride;
  float* c;
  int64_t c_stride;
};

// Panels [first, first + count) over k in [begin, end); begin is even.
void multiply_range(const Block& block, int64_t first, int64_t count, int64_t begin, int64_t end,
                    const Target& target) {
  // Packed rows take a stretch of k through all panels: the next panel's is fetched ahead, and
  // after the last panel the first one's next stretch.
  std::array<const quant::Bf16*, kMaxItemPanels + 1> runs;
  for (int64_t p = 0; p < count; ++p) {
    runs[static_cast<size_t>(p)] =
        block.panels[static_cast<size_t>(first + p)] + begin * kPanelColumns;
  }
  runs[static_cast<size_t>(count)] = block.panels[static_cast<size_t>(first)] + end * kPanelColumns;
  const bool packed = block.packed != nullptr;
  // Later k continue the sums that the earlier ones left in c.
  const float* start = begin > 0 ? target.c : target.start;
  block.ops.multiply(
      {.a = packed ? block.packed : block.args.a + block.row * block.args.a_stride + begin,
       .a_stride = packed ? kBlockK : block.args.a_stride,
       .rows = block.rows,
       .runs = runs.data(),
       .ahead = packed ? runs.data() + 1 : nullptr,
       .panels = count,
       .run_k = packed_pairs(block.args.w.k) * 2,
       .k_begin = 0,
       .k_end = end - begin,
       .start = start != nullptr ? start + first * kPanelColumns : nullptr,
       .start_stride = begin > 0 ? target.c_stride : target.start_stride,
       .c = target.c + first * kPanelColumns,
       .c_stride = target.c_stride});
}

// Rows of a power-of-two stride share few cache sets: side by side they fit L1 and L2.
void pack_rows_of_a(const Block& block, int64_t begin, int64_t end) {
  for (int64_t r = 0; r < block.rows; ++r) {
    std::copy_n(block.args.a + (block.row + r) * block.args.a_stride + begin, end - begin,
                block.packed + r * kBlockK);
  }
}

void multiply_block(const Block& block, const Target& target) {
  const int64_t k = block.args.w.k;
  if (block.rows <= block.ops.tile_rows) {
    // One tile of rows: every weight is used once, nothing is worth keeping.
    multiply_range(block, 0, block.panel_count, 0, k, target);
    return;
  }
  if (block.packed != nullptr) {
    for (int64_t begin = 0; begin < k; begin += kBlockK) {
      const int64_t end = std::min(k, begin + kBlockK);
      pack_rows_of_a(block, begin, end);
      multiply_range(block, 0, block.panel_count, begin, end, target);
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

void run_item(const VectorOps& ops, const GemmArgs& args, const Plan& plan, int64_t item,
              std::span<float> scratch) {
  BH_CHECK(scratch.size() >= static_cast<size_t>(plan.block_rows * (kBlockK + kPanelColumns)),
           "a worker's scratch is too small for gemm");
  const int64_t first_row = item / plan.groups * plan.block_rows;
  const int64_t first = item % plan.groups * plan.item_panels;
  const int64_t last = std::min(first + plan.item_panels, packed_panels(args.w.n));
  const int64_t whole = std::min(last, args.w.n / kPanelColumns);
  const int64_t panel_elements = packed_pairs(args.w.k) * kPanelColumns * 2;
  Block block{ops,
              args,
              first_row,
              std::min(plan.block_rows, args.rows - first_row),
              plan.packs_rows ? scratch.data() : nullptr,
              {},
              0};
  for (int64_t panel = first; panel < whole; ++panel) {
    block.panels[static_cast<size_t>(block.panel_count++)] = args.w.bf16() + panel * panel_elements;
  }
  if (block.panel_count > 0) {
    float* c = args.c + first_row * args.c_stride + first * kPanelColumns;
    const float* bias = args.bias != nullptr ? args.bias + first * kPanelColumns : nullptr;
    multiply_block(
        block, {args.accumulate ? c : bias, args.accumulate ? args.c_stride : 0, c, args.c_stride});
  }
  if (whole < last) {
    block.panels[0] = args.w.bf16() + whole * panel_elements;
    block.panel_count = 1;
    multiply_ragged(block, whole * kPanelColumns, scratch.data() + plan.block_rows * kBlockK);
  }
}

}  // namespace

void gemm_group(const VectorOps& ops, std::span<const GemmArgs> group, device::ThreadPool& pool) {
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

void gemm(const VectorOps& ops, const GemmArgs& args, device::ThreadPool& pool) {
  gemm_group(ops, {&args, 1}, pool);
}

}  // namespace bulkhead::kernels::vector
