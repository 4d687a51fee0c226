#include "transfer/remote/testing/sides.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "kv/integrity/stamp.h"

namespace bulkhead::transfer::remote {
namespace {

constexpr int32_t kMaxTokens = 8;
constexpr int32_t kVocabulary = 1000;
constexpr wire::Slot kDecodeSlot = 5;

wire::TokenId token_of(TransferId id, int32_t position) {
  const uint64_t bits = base::random_bits(id.low, 1, static_cast<uint64_t>(position));
  return static_cast<wire::TokenId>(bits % kVocabulary);
}

wire::SequenceState state_of(TransferId id, int32_t tokens) {
  wire::GenerateRequest request;
  request.id = id.low;
  request.max_tokens = kMaxTokens;
  request.sampling.seed = id.low;
  request.sampling.logit_bias = {{3, 1.5f}};
  request.stop_ids = {2};
  request.prompt.reserve(static_cast<size_t>(tokens));
  for (int32_t i = 0; i < tokens; ++i) request.prompt.push_back(token_of(id, i));
  return {std::move(request), 77};
}

std::unique_ptr<kv::PagePool> make_pool(int32_t pages, uint16_t nonce,
                                        kv::integrity::Mode integrity) {
  return std::move(kv::PagePool::create(test_layout(), {.pages = pages,
                                                        .boot_nonce = nonce,
                                                        .poison_free = true,
                                                        .integrity = {.mode = integrity}}))
      .value();
}

}  // namespace

kv::PageLayout test_layout() {
  kv::PageLayout layout;
  layout.page_tokens = 16;
  layout.layers = 2;
  layout.kv_heads = 2;
  layout.head_dim = 16;
  return layout;
}

SessionOptions test_session(Role role) {
  SessionOptions options;
  Hello& hello = options.identity;
  hello.role = role;
  hello.product = "test";
  hello.pool_layout = hello.wire_layout = test_layout().id();
  hello.page_tokens = static_cast<uint32_t>(test_layout().page_tokens);
  hello.page_bytes = test_layout().page_bytes();
  hello.scale_rule = "none";
  hello.chunk_bytes = 1000;  // does not divide a page
  hello.boot_nonce = role == Role::kPrefill ? 1 : 2;
  options.peer_key = "the key of the deployment";
  return options;
}

std::byte source_byte(TransferId id, size_t page_index, size_t offset) {
  const uint64_t bits = base::random_bits(id.low, page_index + 2, offset / 8);
  return static_cast<std::byte>((bits >> (offset % 8 * 8)) & 0xff);
}

void convert_for_test(std::span<const std::byte> page, int32_t tokens, std::span<std::byte> out) {
  for (size_t i = 0; i < page.size(); ++i) out[i] = page[i] ^ std::byte{0x5a};
  out[0] = static_cast<std::byte>(tokens);
}

// --- prefill

PrefillSide::PrefillSide(int32_t page_count, kv::integrity::Mode integrity)
    : pages(make_pool(page_count, 1, integrity)) {
  options.session = test_session(Role::kPrefill);
}

void PrefillSide::connect(std::unique_ptr<Connection> connection, const base::Clock& clock) {
  sender.reset();
  sender = std::make_unique<Sender>(options, *pages, test_layout(), convert_for_test,
                                    std::move(connection), clock);
}

bool PrefillSide::open(TransferId id, int32_t tokens) {
  Prompt prompt;
  prompt.pages = kv::PageTable(*pages, tokens + 1);
  if (!prompt.pages.cover(tokens)) return false;
  if (!sender->open(id, tokens).ok()) {
    outcomes[id].end = FaultReport{Fault::kPeerLost, "not opened"};
    return false;
  }
  outcomes[id];
  prompt.state = state_of(id, tokens);
  prompt.tokens = tokens;
  prompts_.insert_or_assign(id, std::move(prompt));
  return true;
}

void PrefillSide::fill(TransferId id, const kv::PageTable& table, int32_t begin, int32_t end) {
  const size_t bytes = test_layout().page_bytes();
  const int32_t page_tokens = test_layout().page_tokens;
  for (int32_t p = begin / page_tokens; p * page_tokens < end; ++p) {
    auto* page =
        pages->view().arena + static_cast<size_t>(table.pages()[static_cast<size_t>(p)]) * bytes;
    for (size_t i = 0; i < bytes; ++i) page[i] = source_byte(id, static_cast<size_t>(p), i);
  }
}

bool PrefillSide::compute(TransferId id) {
  const auto entry = prompts_.find(id);
  if (entry == prompts_.end() || entry->second.done) return false;
  Prompt& prompt = entry->second;
  wire::SequenceState& state = prompt.state;
  const int32_t next = std::min(state.written + test_layout().page_tokens, prompt.tokens);
  fill(id, prompt.pages, state.written, next);
  const int32_t first = std::exchange(state.written, next);
  kv::integrity::stamp_pages(pages->integrity(), prompt.pages, state.written_tokens(), first);
  if (tamper) tamper(*pages, prompt.pages);
  if (next < prompt.tokens) {
    sender->offer(id, prompt.pages, next);
    return true;
  }
  state.tokens.push_back(token_of(id, prompt.tokens));
  sender->finish(id, prompt.pages, state);
  prompt.done = true;
  // From here on the sender's leases alone keep the pages.
  prompt.pages.clear();
  return false;
}

void PrefillSide::compute_some() {
  for (const auto& [id, prompt] : prompts_) compute(id);
}

void PrefillSide::poll() {
  sender->poll();
  while (auto end = sender->next_end()) {
    PrefillOutcome& outcome = outcomes[end->transfer];
    BH_CHECK(!outcome.end, "a transfer ends once on prefill's side");
    outcome.end = std::move(end->why);
    prompts_.erase(end->transfer);
  }
}

// --- decode

DecodeSide::DecodeSide(int32_t page_count, kv::integrity::Mode integrity)
    : pages(make_pool(page_count, 2, integrity)) {
  options.session = test_session(Role::kDecode);
  options.bounds = {.vocabulary_size = kVocabulary, .context_tokens = 512};
}

void DecodeSide::connect(std::unique_ptr<Connection> connection, const base::Clock& clock) {
  receiver.reset();
  receiver = std::make_unique<Receiver>(options, *pages, std::move(connection), clock);
}

bool DecodeSide::grant(TransferId id, int32_t tokens) {
  GrantRequest request;
  request.transfer = id;
  request.tokens = tokens;
  request.tokens_max = tokens + kMaxTokens;
  request.slot = kDecodeSlot;
  request.id = id.low;
  request.pages = kv::PageTable(*pages, request.tokens_max);
  if (!request.pages.promise(request.tokens_max) || !request.pages.cover(tokens)) return false;
  const bool granted = receiver->grant(request).ok();
  outcomes[id];
  if (!granted) outcomes[id].end = FaultReport{Fault::kPeerLost, "not granted"};
  return granted;
}

void DecodeSide::poll() {
  receiver->poll();
  while (auto end = receiver->next_end()) {
    DecodeOutcome& outcome = outcomes[end->transfer];
    BH_CHECK(!outcome.end && !outcome.arrived, "a transfer ends once on decode's side");
    BH_CHECK(end->why.fault != Fault::kNone, "what ends without arriving has a reason");
    outcome.end = std::move(end->why);
  }
  while (auto arrival = receiver->receive()) {
    DecodeOutcome& outcome = outcomes[arrival->transfer];
    BH_CHECK(!outcome.end && !outcome.arrived, "a transfer arrives once, and then does not end");
    outcome.arrived = true;
    outcome.right = is_right(*arrival);
  }
}

bool DecodeSide::is_right(const Arrival& arrival) const {
  const TransferId id = arrival.transfer;
  const wire::SequenceState& state = arrival.handoff.state;
  const int32_t tokens = state.prompt_tokens;
  if (state.slot != kDecodeSlot || state.id != id.low || state.written != tokens ||
      state.sampling.seed != id.low || state.tokens.size() != static_cast<size_t>(tokens) + 1) {
    return false;
  }
  for (int32_t i = 0; i <= tokens; ++i) {
    if (state.tokens[static_cast<size_t>(i)] != token_of(id, i)) return false;
  }
  const size_t bytes = test_layout().page_bytes();
  const int32_t page_tokens = test_layout().page_tokens;
  for (size_t p = 0; p < static_cast<size_t>(pages->pages_for(tokens)); ++p) {
    const auto* stored =
        pages->view().arena + static_cast<size_t>(arrival.handoff.pages.pages()[p]) * bytes;
    const int32_t count = std::min(page_tokens, tokens - static_cast<int32_t>(p) * page_tokens);
    if (stored[0] != static_cast<std::byte>(count)) return false;
    for (size_t i = 1; i < bytes; ++i) {
      if (stored[i] != (source_byte(id, p, i) ^ std::byte{0x5a})) return false;
    }
  }
  return true;
}

}  // namespace bulkhead::transfer::remote
