// Any bytes as a recorded trace, Mooncake's JSON Lines or Azure's CSV: rows that are accepted lie
// within the reader's bounds and in the order of time, a part that is read alone is that part of
// the whole, and prompts can be made of them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "apps/bench/replay/prompt_maker.h"
#include "apps/bench/replay/trace.h"
#include "base/check.h"

namespace {

using namespace bulkhead::apps;

constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
constexpr int64_t kPromptMax = 1 << 12;  // tokens of a prompt that is made here

bulkhead::base::Result<Trace> read(const std::string& text, uint64_t start, uint64_t count) {
  std::istringstream in(text);
  return read_trace(in, "input", start, count);
}

void check_row(const Trace& trace, const TraceRow& row) {
  const bool mooncake = trace.kind == "mooncake";
  BH_CHECK(row.input_tokens >= (mooncake ? 1 : 0) && row.input_tokens <= kTraceTokensMax, "input");
  BH_CHECK(row.output_tokens >= 0 && row.output_tokens <= kTraceTokensMax, "output");
  BH_CHECK(std::isfinite(row.arrival_s) && row.arrival_s >= 0.0, "a time before the first");
  const int64_t room = static_cast<int64_t>(row.blocks.size()) * trace.block_tokens;
  BH_CHECK(!mooncake || (room >= row.input_tokens && room - row.input_tokens < trace.block_tokens),
           "blocks that are not the prompt's");
  for (const int64_t name : row.blocks) BH_CHECK(name >= 0, "a name below 0");
}

void check_order(const Trace& trace) {
  uint64_t blocks = 0;
  for (size_t i = 0; i < trace.rows.size(); ++i) {
    const TraceRow& row = trace.rows[i];
    check_row(trace, row);
    blocks += row.blocks.size();
    if (i == 0) continue;
    BH_CHECK(row.line > trace.rows[i - 1].line, "lines out of order");
    BH_CHECK(row.arrival_s >= trace.rows[i - 1].arrival_s, "rows out of order");
  }
  BH_CHECK(blocks <= kTraceBlocksMax, "more blocks than are taken");
}

// The middle of the rows alone.
void check_part(const std::string& text, const Trace& whole) {
  const uint64_t start = whole.rows.size() / 3;
  const uint64_t count = std::max<uint64_t>(1, whole.rows.size() / 2);
  const auto part = read(text, start, count);
  BH_CHECK(part.ok(), "a part of what was read cannot be read");
  BH_CHECK(part->rows.size() == std::min(count, whole.rows.size() - start), "rows of a part");
  for (size_t i = 0; i < part->rows.size(); ++i) {
    const TraceRow& row = whole.rows[start + i];
    const TraceRow& again = part->rows[i];
    BH_CHECK(again.line == row.line && again.blocks == row.blocks, "another row");
    BH_CHECK(again.input_tokens == row.input_tokens && again.output_tokens == row.output_tokens,
             "other lengths");
  }
}

void check_prompts(const Trace& trace) {
  constexpr TokenRange kRange = {.low = 3, .span = 50};
  const PromptMaker maker(1, kRange, trace.block_tokens, 8.0);
  int64_t left = kPromptMax;
  for (const TraceRow& row : trace.rows) {
    left -= maker.input_tokens(row);
    if (left < 0) return;
    const PromptTokens prompt = maker.prompt(row);
    BH_CHECK(static_cast<int64_t>(prompt.size()) == maker.input_tokens(row), "a prompt's length");
    for (const int32_t token : prompt) BH_CHECK(token >= 3 && token < 53, "a token out of range");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto trace = read(text, 0, kAll);
  if (!trace.ok()) {
    BH_CHECK(!trace.error().message.empty(), "an error without a word");
    return 0;
  }
  BH_CHECK(!trace->rows.empty() && trace->rows[0].arrival_s == 0.0, "a trace of nothing");
  check_order(*trace);
  check_part(text, *trace);
  check_prompts(*trace);
  return 0;
}
