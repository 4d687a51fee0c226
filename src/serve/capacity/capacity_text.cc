// The plan as people read it: one row a figure, one column a pool, and where the figure is from.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "serve/capacity/capacity_plan.h"

namespace bulkhead::serve {
namespace {

using base::format_bytes;

std::string count(int64_t n) { return base::format_count(static_cast<uint64_t>(n)); }

// Cells in columns as wide as their widest, the first to the left and the others too.
class Table {
 public:
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const {
    std::vector<size_t> widths;
    for (const auto& row : rows_) {
      if (row.size() > widths.size()) widths.resize(row.size());
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

class Report {
 public:
  explicit Report(const CapacityPlan& plan) : plan_(plan) {
    pools_ = {&plan.prefill, &plan.decode};
    if (plan.against) pools_.push_back(&*plan.against);
  }

  std::string text() {
    table_.add(header());
    weights();
    cache();
    money();
    return opening() + '\n' + table_.text() + closing();
  }

 private:
  static constexpr const char* kDerived = "derived";

  // Whence a pool's choice is, of all pools.
  std::string source_of(std::string PoolCapacity::* source) const {
    const bool one = std::ranges::all_of(
        pools_, [&](const PoolCapacity* pool) { return pool->*source == pools_[0]->*source; });
    if (one) return pools_[0]->*source;
    std::string out;
    for (const PoolCapacity* pool : pools_) {
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", pool->name, pool->*source);
    }
    return out;
  }
  static const char* given_unless(bool is_default) { return is_default ? "default" : "given"; }

  std::string opening() const {
    const CapacityOptions& o = plan_.options;
    std::string out = fmt::format("{}: {}, {} parameters, stored as {} ({})\n", plan_.model.name,
                                  plan_.model.config.family,
                                  base::format_count(plan_.decode.weights.stored.elements()),
                                  plan_.model.stored.text(), plan_.model.stored_reason);
    out +=
        fmt::format("each pool: {} rank{} of {} ({}), {:.3g} % of it for weights and cache ({})\n",
                    o.ranks, o.ranks == 1 ? "" : "s", format_bytes(o.memory_bytes),
                    o.machines_memory ? "this machine's" : "given", o.memory_share * 100,
                    given_unless(o.memory_share == kMemoryShare));
    out += fmt::format("each request: {} tokens of prompt ({}), {} of answer ({}); pages of {}\n",
                       count(o.context_tokens),
                       plan_.models_context ? "what the model's context leaves" : "given",
                       count(o.output_tokens), given_unless(o.output_tokens == 0), o.page_tokens);
    return out;
  }

  std::vector<std::string> header() const {
    std::vector<std::string> row = {""};
    for (const PoolCapacity* pool : pools_) row.push_back(pool->name);
    if (plan_.against) row.emplace_back("decode / against");
    row.emplace_back("");
    return row;
  }

  // One figure of every pool; with `ratio`, that of decode to the pool it is held against.
  template <typename Cell>
  void row(std::string name, const Cell& cell, const std::string& source) {
    std::vector<std::string> cells = {std::move(name)};
    for (const PoolCapacity* pool : pools_) cells.push_back(cell(*pool));
    if (plan_.against) cells.emplace_back("");
    cells.emplace_back(source);
    table_.add(std::move(cells));
  }
  template <typename Cell, typename Value>
  void row(std::string name, const Cell& cell, const char* source, const Value& value) {
    std::vector<std::string> cells = {std::move(name)};
    for (const PoolCapacity* pool : pools_) cells.push_back(cell(*pool));
    if (plan_.against) {
      const auto mine = static_cast<double>(value(plan_.decode));
      const auto other = static_cast<double>(value(*plan_.against));
      cells.push_back(other > 0 && mine > 0 ? fmt::format("{:.3f}", mine / other) : "");
    }
    cells.emplace_back(source);
    table_.add(std::move(cells));
  }

  void weights() {
    using P = PoolCapacity;
    row(
        "weights", [](const P& p) { return p.weights.recipe.text(); },
        source_of(&P::weights_source));
    const bool read = std::ranges::any_of(pools_, [](const P* p) { return p->weights.from_files; });
    row(
        "  checkpoint", [](const P& p) { return format_bytes(p.weights.checkpoint_bytes); },
        read ? "read from the files where stored so, else derived" : kDerived,
        [](const P& p) { return p.weights.checkpoint_bytes; });
    row(
        "  checkpoint per rank", [](const P& p) { return format_bytes(p.checkpoint_on_rank); },
        kDerived, [](const P& p) { return p.checkpoint_on_rank; });
    row(
        "  in memory per rank", [](const P& p) { return format_bytes(p.weights_on_rank); },
        kDerived, [](const P& p) { return p.weights_on_rank; });
    for (size_t i = 0; i < plan_.decode.weights.packed.shares.size(); ++i) {
      const auto bytes = [&](const P& p) { return on_rank(p.weights.packed.shares[i]); };
      row(
          fmt::format("    {}", plan_.decode.weights.packed.shares[i].name),
          [&](const P& p) { return format_bytes(bytes(p)); }, kDerived, bytes);
    }
  }

  uint64_t on_rank(const model::WeightShare& share) const {
    return share.replicated +
           (share.total() - share.replicated) / static_cast<uint64_t>(plan_.options.ranks);
  }

  void cache() {
    using P = PoolCapacity;
    row(
        "cache", [](const P& p) { return std::string(kv::to_string(p.layout.format)); },
        source_of(&P::kv_source));
    row(
        "  per token and rank",
        [](const P& p) { return fmt::format("{:.0f} B", token_bytes(p.layout)); }, kDerived,
        [](const P& p) { return token_bytes(p.layout); });
    row(
        "  room per rank", [](const P& p) { return format_bytes(p.room.bytes); }, kDerived,
        [](const P& p) { return p.room.bytes; });
    row(
        "  pages", [](const P& p) { return count(p.room.pages); }, kDerived,
        [](const P& p) { return p.room.pages; });
    row(
        "  resident tokens", [](const P& p) { return count(p.room.tokens); }, kDerived,
        [](const P& p) { return p.room.tokens; });
    row(
        "requests at once", [](const P& p) { return count(p.requests); }, kDerived,
        [](const P& p) { return p.requests; });
    row(
        "pages of one prompt", [](const P& p) { return format_bytes(p.transfer_bytes); }, kDerived,
        [](const P& p) { return p.transfer_bytes; });
  }

  void money() {
    using P = PoolCapacity;
    const auto known = [&](auto member) {
      return std::ranges::any_of(pools_, [&](const P* p) { return p->*member > 0; });
    };
    if (known(&P::tokens_per_second)) {
      row(
          "tokens/s", [](const P& p) { return figure(p.tokens_per_second, 0); },
          "given, measured by you", [](const P& p) { return p.tokens_per_second; });
    }
    if (known(&P::cost)) {
      row(
          "cost per million tokens", [](const P& p) { return figure(p.cost, 2); }, kDerived,
          [](const P& p) { return p.cost; });
    }
  }

  static std::string figure(double value, int digits) {
    return value > 0 ? fmt::format("{:.{}f}", value, digits) : "-";
  }

  std::string closing() const {
    std::string out = fmt::format(
        "\nCache: {}. A handoff moves the pages of a prompt in the decode pool's format: {} a "
        "request{}.\n",
        plan_.decode.sharing, format_bytes(plan_.decode.transfer_bytes),
        plan_.decode.layout.latent_dim > 0 && plan_.options.ranks > 1
            ? ", to every rank that keeps a copy"
            : "");
    out +=
        "In memory weights are packed for this server's kernels, without prediction layers; norms, "
        "routers, indexers\nand the projections down to latent vectors are whole on every rank.\n";
    if (plan_.options.price > 0) {
      out += fmt::format("Cost = {} ranks x {:g} a rank and hour / 3600 / tokens/s x 1,000,000\n",
                         plan_.options.ranks, plan_.options.price);
    }
    for (const PoolCapacity* pool : pools_) {
      if (!pool->problem.empty()) {
        out += fmt::format("{} does not fit: {}\n", pool->name, pool->problem);
      }
    }
    return out;
  }

  const CapacityPlan& plan_;
  std::vector<const PoolCapacity*> pools_;
  Table table_;
};

}  // namespace

std::string capacity_text(const CapacityPlan& plan) { return Report(plan).text(); }

}  // namespace bulkhead::serve
