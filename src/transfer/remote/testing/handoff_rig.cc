#include "transfer/remote/testing/handoff_rig.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace bulkhead::transfer::remote {
namespace {

constexpr int32_t kMaxTokens = 8;
constexpr int32_t kVocabulary = 1000;

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
  for (int32_t i = 0; i < tokens; ++i) request.prompt.push_back(token_of(id, i));
  return {std::move(request), 77};
}

std::unique_ptr<kv::PagePool> make_pool(int32_t pages, uint16_t nonce) {
  return std::move(kv::PagePool::create(rig_layout(), {.pages = pages,
                                                       .boot_nonce = nonce,
                                                       .poison_free = true}))
      .value();
}

SessionOptions session_of(Role role, uint32_t window) {
  SessionOptions options;
  Hello& hello = options.identity;
  hello.role = role;
  hello.product = "test";
  hello.pool_layout = hello.wire_layout = rig_layout().id();
  hello.page_tokens = static_cast<uint32_t>(rig_layout().page_tokens);
  hello.page_bytes = rig_layout().page_bytes();
  hello.scale_rule = "none";
  hello.chunk_bytes = 1000;  // does not divide a page
  hello.boot_nonce = role == Role::kPrefill ? 1 : 2;
  options.peer_key = "the key of the deployment";
  options.window_frames = window;
  return options;
}

}  // namespace

kv::PageLayout rig_layout() {
  kv::PageLayout layout;
  layout.page_tokens = 16;
  layout.layers = 2;
  layout.kv_heads = 2;
  layout.head_dim = 16;
  return layout;
}

std::byte source_byte(TransferId id, size_t page_index, size_t offset) {
  const uint64_t bits = base::random_bits(id.low, page_index + 2, offset / 8);
  return static_cast<std::byte>((bits >> (offset % 8 * 8)) & 0xff);
}

void convert_for_test(std::span<const std::byte> page, int32_t tokens, std::span<std::byte> out) {
  for (size_t i = 0; i < page.size(); ++i) out[i] = page[i] ^ std::byte{0x5a};
  out[0] = static_cast<std::byte>(tokens);
}

HandoffRig::HandoffRig(RigOptions options)
    : network(clock, options.network),
      prefill_pages(make_pool(options.pages, 1)),
      decode_pages(make_pool(options.pages, 2)) {
  clock.advance(base::Nanoseconds{1});
  sender_options.session = session_of(Role::kPrefill, options.window_frames);
  receiver_options.session = session_of(Role::kDecode, options.window_frames);
  receiver_options.bounds = {.vocabulary_size = kVocabulary, .context_tokens = 512};
  network.set_plan(std::move(options.plan));
  connect();
}

HandoffRig::~HandoffRig() = default;

void HandoffRig::connect() {
  sender.reset();
  receiver.reset();
  auto ends = network.connect();
  sender = std::make_unique<Sender>(sender_options, *prefill_pages, rig_layout(), convert_for_test,
                                    std::move(ends.first), clock);
  receiver = std::make_unique<Receiver>(receiver_options, *decode_pages, std::move(ends.second),
                                        clock);
}

bool HandoffRig::open() {
  while (!sender->session().is_closed() && !receiver->session().is_closed()) {
    step();
    if (sender->session().is_open() && receiver->session().is_open()) return true;
    clock.advance(base::Nanoseconds{10'000'000});
  }
  return false;
}

void HandoffRig::step() {
  step_prefill();
  step_decode();
}

void HandoffRig::step_prefill() {
  sender->poll();
  while (auto end = sender->next_end()) {
    BH_CHECK(!outcomes_[end->transfer].prefill, "a transfer ends once on prefill's side");
    outcomes_[end->transfer].prefill = std::move(end->why);
    prompts_.erase(end->transfer);
  }
}

void HandoffRig::step_decode() {
  receiver->poll();
  while (auto end = receiver->next_end()) {
    Outcome& outcome = outcomes_[end->transfer];
    BH_CHECK(!outcome.decode && !outcome.arrived, "a transfer ends once on decode's side");
    BH_CHECK(end->why.fault != Fault::kNone, "what ends without arriving has a reason");
    outcome.decode = std::move(end->why);
  }
  while (auto arrival = receiver->receive()) check(*arrival);
}

void HandoffRig::check(const Arrival& arrival) {
  Outcome& outcome = outcomes_[arrival.transfer];
  BH_CHECK(!outcome.decode && !outcome.arrived, "a transfer arrives once, and then does not end");
  outcome.arrived = true;
  const wire::SequenceState& state = arrival.handoff.state;
  const int32_t tokens = state.prompt_tokens;
  bool right = state.slot == 5 && state.written == tokens && state.sampling.seed == arrival.transfer.low &&
               static_cast<int32_t>(state.tokens.size()) == tokens + 1;
  for (int32_t i = 0; right && i <= tokens; ++i) {
    right = state.tokens[static_cast<size_t>(i)] == token_of(arrival.transfer, i);
  }
  const size_t bytes = rig_layout().page_bytes();
  const int32_t page_tokens = rig_layout().page_tokens;
  const auto pages = static_cast<size_t>(decode_pages->pages_for(tokens));
  for (size_t p = 0; right && p < pages; ++p) {
    const auto* stored = decode_pages->view().arena +
                         static_cast<size_t>(arrival.handoff.pages.pages()[p]) * bytes;
    const int32_t count = std::min(page_tokens, tokens - static_cast<int32_t>(p) * page_tokens);
    right = stored[0] == static_cast<std::byte>(count);
    for (size_t i = 1; right && i < bytes; ++i) {
      right = stored[i] == (source_byte(arrival.transfer, p, i) ^ std::byte{0x5a});
    }
  }
  outcome.right = right;
}

bool HandoffRig::settle(base::Nanoseconds limit) {
  const auto until = clock.now() + limit;
  while (clock.now() < until) {
    step();
    bool all = sender->open_transfers() == 0 && receiver->open_grants() == 0;
    for (auto& [id, prompt] : prompts_) {
      if (!prompt.done) compute(id);
    }
    all = all && prompts_.empty();
    if (all) return true;
    clock.advance(base::Nanoseconds{50'000'000});
  }
  return false;
}

bool HandoffRig::grant(TransferId id, int32_t tokens) {
  GrantRequest request;
  request.transfer = id;
  request.tokens = tokens;
  request.tokens_max = tokens + kMaxTokens;
  request.slot = 5;
  request.id = id.low;
  request.pages = kv::PageTable(*decode_pages, request.tokens_max);
  if (!request.pages.promise(request.tokens_max) || !request.pages.cover(tokens)) return false;
  outcomes_[id];
  const bool granted = receiver->grant(request).ok();
  if (!granted) outcomes_[id].decode = FaultReport{Fault::kPeerLost, "not granted"};
  return granted;
}

bool HandoffRig::open_at_prefill(TransferId id, int32_t tokens) {
  Prompt prompt;
  prompt.pages = kv::PageTable(*prefill_pages, tokens + 1);
  if (!prompt.pages.cover(tokens)) return false;
  if (!sender->open(id, tokens).ok()) {
    outcomes_[id].prefill = FaultReport{Fault::kPeerLost, "not opened"};
    return false;
  }
  prompt.state = state_of(id, tokens);
  prompt.tokens = tokens;
  prompts_.insert_or_assign(id, std::move(prompt));
  return true;
}

void HandoffRig::fill(TransferId id, const kv::PageTable& pages, int32_t begin, int32_t end) {
  const size_t bytes = rig_layout().page_bytes();
  const int32_t page_tokens = rig_layout().page_tokens;
  for (int32_t p = begin / page_tokens; p * page_tokens < end; ++p) {
    auto* page = prefill_pages->view().arena +
                 static_cast<size_t>(pages.pages()[static_cast<size_t>(p)]) * bytes;
    for (size_t i = 0; i < bytes; ++i) page[i] = source_byte(id, static_cast<size_t>(p), i);
  }
}

bool HandoffRig::compute(TransferId id) {
  const auto entry = prompts_.find(id);
  if (entry == prompts_.end() || entry->second.done) return false;
  Prompt& prompt = entry->second;
  wire::SequenceState& state = prompt.state;
  const int32_t next = std::min(state.written + rig_layout().page_tokens, prompt.tokens);
  fill(id, prompt.pages, state.written, next);
  state.written = next;
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

void HandoffRig::compute_all(TransferId id) {
  while (compute(id)) {
  }
}

void HandoffRig::run(TransferId id, int32_t tokens) {
  grant(id, tokens);
  open_at_prefill(id, tokens);
  while (compute(id)) step();
  step();
}

std::string HandoffRig::balance() {
  prompts_.clear();
  for (int32_t i = 0; i < 100 && receiver->quarantined_pages() > 0; ++i) {
    step();
    clock.advance(base::Nanoseconds{100'000'000});
  }
  return kv::describe(kv::validate_idle(prefill_pages->snapshot())) +
         kv::describe(kv::validate_idle(decode_pages->snapshot()));
}

}  // namespace bulkhead::transfer::remote
