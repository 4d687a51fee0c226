#include "kernels/vector/attention_unit.h"

#include <array>

#include "base/check.h"
#include "kernels/fp8_cache.h"
#include "kernels/kv_layout.h"
#include "kernels/vector/fp8_product.h"

namespace bulkhead::kernels::vector {
namespace {

constexpr int64_t kFloatAlign = 16;
int64_t align_floats(int64_t count) {
  return (count + kFloatAlign - 1) / kFloatAlign * kFloatAlign;
}
constexpr int64_t kCutPanels = kKvSplit / kPanelColumns;

// Tokens that stand in one piece inside a page and start at a cut's start: the length of a run.
int32_t run_tokens(int32_t page_tokens) {
  if (kKvSplit % page_tokens == 0) return page_tokens;
  return page_tokens % kKvSplit == 0 ? kKvSplit : static_cast<int32_t>(kPanelColumns);
}

struct CutRange {
  int32_t begin;
  int32_t first_token;  // of the unit, the first that sees the cut
  int32_t seen_by_first;
  int32_t seen_by_last;
};

int32_t seen(const Unit& unit, int32_t token, int32_t begin) {
  return std::min(kKvSplit, unit.visible(token) - begin);
}

CutRange cut_range(const Unit& unit, int32_t cut) {
  const int32_t begin = cut * kKvSplit;
  const int32_t first = unit.first_active(cut);
  return {begin, first, seen(unit, first, begin), seen(unit, unit.tokens - 1, begin)};
}

// Few rows wait for memory: while they multiply K, the V of the same tokens is fetched, and with V
// the K of the next cut. Pages lie anywhere, so the hardware does not see that coming. Many rows
// find both in L2 after the first tile.
bool fetches_ahead(const VectorOps& ops, const KvLayerView& kv, const Unit& unit) {
  return kv.latent_dim == 0 && unit.selected == nullptr && unit.rows() <= ops.tile_rows;
}

bool is_fp8(const KvLayerView& kv) { return kv.format == CacheFormat::kFp8E4m3; }

void multiply_lines(const VectorOps& ops, const KvLayerView& kv, const PanelProduct& product,
                    const Workspace& work) {
  if (is_fp8(kv)) {
    multiply_fp8(ops, product, work.expanded);
  } else {
    ops.multiply(product);
  }
}

// Where the 16 tokens from `position` have their share of V, for fetching only.
const std::byte* v_share(const KvLayerView& kv, const Unit& unit, int32_t position) {
  const int32_t slot = position % kv.page_tokens;
  return v_base(kv, unit.slice->pages[position / kv.page_tokens], unit.kv_head) +
         slot * padded_dims(kv.head_dim) * value_bytes(kv.format);
}

int64_t cut_key_bytes(const KvLayerView& kv) {
  return kCutPanels * k_panel_bytes(kv.format, kv.head_dim);
}
int64_t cut_value_bytes(const KvLayerView& kv) {
  return padded_dims(kv.latent_dim) * kKvSplit * value_bytes(kv.format);
}
int64_t cut_expanded_bytes(const KvLayerView& kv) {
  return is_fp8(kv) ? expanded_bytes(std::max<int64_t>(kKvSplit, packed_pairs(kv.head_dim) * 2))
                    : 0;
}

const std::byte* k_panel(const KvLayerView& kv, const Unit& unit, int32_t position) {
  return k_base(kv, unit.slice->pages[position / kv.page_tokens], unit.kv_head) +
         position % kv.page_tokens / kPanelColumns * k_panel_bytes(kv.format, kv.head_dim);
}

// Lays the selected keys of a cut side by side, as a page would hold them: of each line a dword,
// two or four neighbouring codes of one token.
void gather_keys(const KvLayerView& kv, const Unit& unit, const CutRange& range, Workspace& work) {
  using Codes = uint32_t;
  const int64_t lines = k_lines(kv.format, kv.head_dim);
  for (int32_t i = 0; i < range.seen_by_last; ++i) {
    const int32_t position = unit.selected[range.begin + i];
    const auto* from = reinterpret_cast<const Codes*>(k_panel(kv, unit, position)) +
                       position % kv.page_tokens % kPanelColumns;
    auto* to = reinterpret_cast<Codes*>(work.keys +
                                        i / kPanelColumns * k_panel_bytes(kv.format, kv.head_dim)) +
               i % kPanelColumns;
    for (int64_t line = 0; line < lines; ++line)
      to[line * kPanelColumns] = from[line * kPanelColumns];
  }
}

// The powers of two of a cut's tokens, as what their scores and weights are multiplied by. Tokens
// beyond those seen share their panels; their factors are 0.
void load_factors(const VectorOps& ops, const KvLayerView& kv, const Unit& unit,
                  const CutRange& range, Workspace& work) {
  const int32_t seen = range.seen_by_last;
  const bool latent = kv.latent_dim > 0;
  for (int32_t component = 0; component < (kv.one_component() ? 1 : 2); ++component) {
    const bool is_value = !latent && component == 1;
    float* factors = is_value ? work.value_factors : work.score_factors[component];
    const float rescale = is_value ? ops.fp8_lift : kFp8Rescale;
    if (unit.selected == nullptr) {
      load_powers(kv, unit.slice->pages, component, range.begin, seen, rescale, factors);
    } else {
      for (int32_t i = 0; i < seen; ++i) {
        const int32_t position = unit.selected[range.begin + i];
        load_powers(kv, unit.slice->pages, component, position, 1, rescale, factors + i);
      }
    }
    std::fill_n(factors + seen, packed_panels(seen) * kPanelColumns - seen, 0.0f);
  }
  // A latent value's power of two is that of its key's latent part.
  if (!latent) return;
  for (int32_t i = 0; i < seen; ++i) {
    work.value_factors[i] = work.score_factors[0][i] * (kFp8SumScale * ops.fp8_lift);
  }
}

// The values of a latent cache from its keys.
void turn_keys(const VectorOps& ops, const KvLayerView& kv, int64_t panels, Workspace& work) {
  const int64_t dim_panels = packed_panels(kv.latent_dim);
  const int64_t stride = v_panel_bytes(kv.format, kKvSplit);
  for (int64_t panel = 0; panel < panels; ++panel) {
    std::byte* to = work.values + panel * v_panel_bytes(kv.format, kPanelColumns);
    if (is_fp8(kv)) {
      ops.turn_panel_fp8(static_cast<const uint8_t*>(work.runs[panel]), dim_panels,
                         reinterpret_cast<uint8_t*>(to), stride);
    } else {
      ops.turn_panel(static_cast<const uint16_t*>(work.runs[panel]), dim_panels,
                     reinterpret_cast<uint16_t*>(to), stride / 2);
    }
  }
}

const std::byte* next_keys(const KvLayerView& kv, const NextCut& next, int32_t token) {
  const int32_t last = next.unit->visible(next.unit->tokens - 1) - 1;
  return k_panel(kv, *next.unit, std::min(last, next.cut * kKvSplit + token));
}

void score_panels(const VectorOps& ops, const AttentionArgs& args, const Unit& unit,
                  Workspace& work, int32_t first_token, int64_t panel, int64_t panels) {
  const KvLayerView& kv = args.kv;
  const int64_t row = int64_t{first_token} * unit.group;
  PanelProduct product{.a = work.q + row * kv.head_dim,
                       .a_stride = kv.head_dim,
                       .rows = unit.rows() - row,
                       .runs = work.runs + panel,
                       .ahead = fetches_ahead(ops, kv, unit) ? work.ahead + panel : nullptr,
                       .panels = panels,
                       .run_k = packed_pairs(kv.head_dim) * 2,
                       .k_begin = 0,
                       .k_end = kv.head_dim,
                       .start = nullptr,
                       .start_stride = 0,
                       .c = work.scores + row * kKvSplit + panel * kPanelColumns,
                       .c_stride = kKvSplit};
  if (!is_fp8(kv)) {
    ops.multiply(product);
    return;
  }
  const auto multiply_part = [&](int32_t component, int32_t begin, int32_t end) {
    std::array<const void*, kCutPanels> scales;
    for (int64_t p = 0; p < panels; ++p) {
      scales[static_cast<size_t>(p)] = work.score_factors[component] + (panel + p) * kPanelColumns;
    }
    product.scales = scales.data();
    product.k_begin = begin;
    product.k_end = end;
    multiply_fp8(ops, product, work.expanded);
  };
  const int32_t first_part = kv.latent_dim > 0 ? kv.latent_dim : kv.head_dim;
  multiply_part(0, 0, first_part);
  if (first_part == kv.head_dim) return;
  product.start = product.c;
  product.start_stride = kKvSplit;
  multiply_part(1, first_part, kv.head_dim);
}

void score_cut(const VectorOps& ops, const AttentionArgs& args, const Unit& unit,
               const CutRange& range, Workspace& work) {
  const KvLayerView& kv = args.kv;
  const int64_t panels = packed_panels(range.seen_by_last);
  if (unit.selected != nullptr) gather_keys(kv, unit, range, work);
  for (int64_t panel = 0; panel < panels; ++panel) {
    const auto position = static_cast<int32_t>(range.begin + panel * kPanelColumns);
    work.runs[panel] = unit.selected != nullptr
                           ? work.keys + panel * k_panel_bytes(kv.format, kv.head_dim)
                           : k_panel(kv, unit, position);
    if (fetches_ahead(ops, kv, unit)) work.ahead[panel] = v_share(kv, unit, position);
  }
  if (kv.latent_dim > 0) turn_keys(ops, kv, panels, work);
  if (is_fp8(kv)) load_factors(ops, kv, unit, range, work);
  // Panels that every row reads, then the diagonal: each panel for the rows that reach into it.
  const int64_t common = packed_panels(range.seen_by_first);
  score_panels(ops, args, unit, work, range.first_token, 0, common);
  for (int64_t panel = common; panel < panels; ++panel) {
    const auto behind = static_cast<int32_t>(range.begin + panel * kPanelColumns);
    const int32_t first = std::max(range.first_token, behind - unit.visible(0) + 1);
    score_panels(ops, args, unit, work, first, panel, 1);
  }
}

// Points work.runs at the values of a cut; returns the tokens of a run.
int32_t find_values(const AttentionArgs& args, const Unit& unit, const CutRange& range,
                    const NextCut& next, bool fetches, Workspace& work) {
  const KvLayerView& kv = args.kv;
  const int64_t panels = packed_panels(kv.value_dim());
  if (kv.latent_dim > 0) {
    for (int64_t panel = 0; panel < panels; ++panel) {
      work.runs[panel] = work.values + panel * v_panel_bytes(kv.format, kKvSplit);
    }
    return kKvSplit;
  }
  const int32_t run = run_tokens(kv.page_tokens);
  for (int32_t token = 0; token < range.seen_by_last; token += run) {
    const int32_t position = range.begin + token;
    const std::byte* v = v_base(kv, unit.slice->pages[position / kv.page_tokens], unit.kv_head) +
                         v_panel_bytes(kv.format, position % kv.page_tokens);
    // The keys of the same stretch of the next cut, as far as there are any.
    const std::byte* k = fetches ? next_keys(kv, next, token) : nullptr;
    const int64_t share = run / kPanelColumns * k_panel_bytes(kv.format, kv.head_dim) / panels;
    for (int64_t panel = 0; panel < panels; ++panel) {
      work.runs[token / run * panels + panel] =
          v + panel * v_panel_bytes(kv.format, kv.page_tokens);
      work.ahead[token / run * panels + panel] = fetches ? k + panel * share : nullptr;
    }
  }
  return run;
}

void weigh_values(const VectorOps& ops, const AttentionArgs& args, const Unit& unit,
                  const CutRange& range, NextCut next, Workspace& work, const Partial& out) {
  const bool fetches = next.unit != nullptr && fetches_ahead(ops, args.kv, unit);
  const int32_t run = find_values(args, unit, range, next, fetches, work);
  const int64_t panels = packed_panels(args.kv.value_dim());
  const int64_t dims = padded_dims(args.kv.value_dim());
  const int64_t row = int64_t{range.first_token} * unit.group;
  PanelProduct product{.a = work.scores + row * kKvSplit,
                       .a_stride = kKvSplit,
                       .rows = unit.rows() - row,
                       .runs = work.runs,
                       .ahead = fetches ? work.ahead : nullptr,
                       .panels = panels,
                       .run_k = run,
                       .k_begin = 0,
                       .k_end = range.seen_by_first,
                       .start = nullptr,
                       .start_stride = 0,
                       .c = out.out + row * dims,
                       .c_stride = dims};
  multiply_lines(ops, args.kv, product, work);
  // What later tokens see beyond the first one's reach, token by token.
  product.rows = unit.group;
  product.k_begin = range.seen_by_first;
  product.start_stride = dims;
  for (int32_t token = range.first_token + 1; token < unit.tokens; ++token) {
    product.k_end = seen(unit, token, range.begin);
    if (product.k_end == product.k_begin) continue;
    product.a = work.scores + int64_t{token} * unit.group * kKvSplit;
    product.c = out.out + int64_t{token} * unit.group * dims;
    product.start = product.c;
    multiply_lines(ops, args.kv, product, work);
  }
}

}  // namespace

int64_t padded_dims(int32_t dims) { return packed_panels(dims) * kPanelColumns; }

int64_t partial_floats(int64_t rows, int32_t value_dim) {
  static_assert(sizeof(SoftmaxState) == 2 * sizeof(float));
  return align_floats(rows * (padded_dims(value_dim) + 2));
}

Partial place_partial(float* memory, int64_t rows, int32_t value_dim) {
  return {memory, reinterpret_cast<SoftmaxState*>(memory + rows * padded_dims(value_dim))};
}

size_t Workspace::bytes(int64_t rows, const AttentionArgs& args) {
  const KvLayerView& kv = args.kv;
  const int64_t floats =
      align_floats(rows * kv.head_dim) + rows * kKvSplit + 2 * partial_floats(rows, kv.value_dim());
  const int64_t selected = args.selected != nullptr ? cut_key_bytes(kv) : 0;
  const int64_t factors = is_fp8(kv) ? 3 * kKvSplit : 0;
  return static_cast<size_t>(floats + factors) * sizeof(float) +
         static_cast<size_t>(cut_value_bytes(kv) + selected + cut_expanded_bytes(kv)) +
         static_cast<size_t>(2 * kCutPanels * packed_panels(kv.value_dim())) * sizeof(void*);
}

Workspace::Workspace(std::span<std::byte> scratch, int64_t rows, const AttentionArgs& args) {
  BH_CHECK(scratch.size() >= bytes(rows, args), "a worker's scratch is too small for attention");
  const KvLayerView& kv = args.kv;
  const int64_t partial = partial_floats(rows, kv.value_dim());
  auto* memory = reinterpret_cast<float*>(scratch.data());
  scores = memory;
  q = scores + rows * kKvSplit;
  float* partials = q + align_floats(rows * kv.head_dim);
  whole = place_partial(partials, rows, kv.value_dim());
  cut = place_partial(partials + partial, rows, kv.value_dim());
  float* factors = partials + 2 * partial;
  if (is_fp8(kv)) {
    score_factors[0] = factors;
    score_factors[1] = factors + kKvSplit;
    value_factors = factors + 2 * kKvSplit;
    factors += 3 * kKvSplit;
  }
  runs = reinterpret_cast<const void**>(factors);
  ahead = runs + kCutPanels * packed_panels(kv.value_dim());
  values = reinterpret_cast<std::byte*>(ahead + kCutPanels * packed_panels(kv.value_dim()));
  expanded = values + cut_value_bytes(kv);
  keys = expanded + cut_expanded_bytes(kv);
}

void load_queries(const VectorOps& ops, const AttentionArgs& args, const Unit& unit,
                  Workspace& work) {
  const int64_t dims = args.kv.head_dim;
  const float scale = is_fp8(args.kv) ? args.scale * ops.fp8_lift : args.scale;
  // The query heads of a unit are neighbours, so a token's rows are one piece.
  for (int32_t token = 0; token < unit.tokens; ++token) {
    const int64_t row = unit.first_row() + token;
    ops.scale(args.q + row * args.q_stride + unit.first_head * dims, scale,
              work.q + int64_t{token} * unit.group * dims, unit.group * dims);
  }
}

void attend_cut(const VectorOps& ops, const AttentionArgs& args, const Unit& unit, int32_t cut,
                NextCut next, Workspace& work, const Partial& out) {
  const CutRange range = cut_range(unit, cut);
  score_cut(ops, args, unit, range, work);
  for (int32_t token = range.first_token; token < unit.tokens; ++token) {
    const int32_t count = seen(unit, token, range.begin);
    for (int32_t g = 0; g < unit.group; ++g) {
      const int64_t row = int64_t{token} * unit.group + g;
      float* scores = work.scores + row * kKvSplit;
      out.states[row] = ops.softmax(scores, count);
      if (is_fp8(args.kv)) ops.scale_each(scores, work.value_factors, count);
    }
  }
  weigh_values(ops, args, unit, range, next, work, out);
}

void merge_cut(const VectorOps& ops, const AttentionArgs& args, const Unit& unit, int32_t cut,
               const Partial& from, const Partial& into) {
  const int64_t dims = padded_dims(args.kv.value_dim());
  const int64_t first = int64_t{unit.first_active(cut)} * unit.group;
  if (cut == 0) {
    std::copy_n(from.out, unit.rows() * dims, into.out);
    std::copy_n(from.states, unit.rows(), into.states);
    return;
  }
  for (int64_t row = first; row < unit.rows(); ++row) {
    ops.merge(into.states + row, into.out + row * dims, from.states + row, from.out + row * dims,
              args.kv.value_dim());
  }
}

void write_out(const VectorOps& ops, const AttentionArgs& args, const Unit& unit,
               const Partial& from) {
  const int64_t dims = args.kv.value_dim();
  for (int64_t row = 0; row < unit.rows(); ++row) {
    const int64_t token = row / unit.group;
    const int64_t head = unit.first_head + row % unit.group;
    float* out = args.out + (unit.first_row() + token) * args.out_stride + head * dims;
    const float sum = from.states[row].sum * (is_fp8(args.kv) ? kFp8SumScale : 1.0f);
    ops.divide(from.out + row * padded_dims(args.kv.value_dim()), sum, out, dims);
  }
}

}  // namespace bulkhead::kernels::vector
