#include "serve/roles/testing/roles_rig.h"

#include <fmt/format.h>

#include <cstring>
#include <random>

#include "base/check.h"
#include "base/rng.h"
#include "engine/testing/scripted_decoder.h"
#include "kv/invariants.h"

namespace bulkhead::serve::roles::testing {

using transfer::remote::Role;

namespace {

constexpr model::StepLimits kLimits{.rows_max = 64, .logits_rows_max = 16, .slices_max = 16};
constexpr base::Nanoseconds kStep{1'000'000};

template <typename T>
T take(base::Result<T> result) {
  BH_CHECK(result.ok(), result.error().message);
  return std::move(result).value();
}

uint64_t boot_nonce() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device() | 1;
}

std::unique_ptr<kv::PagePool> make_pages(const model::Decoder& decoder, const RigOptions& options,
                                         int32_t pages) {
  kv::PageLayout layout = decoder.facts().cache;
  layout.page_tokens = options.page_tokens;
  return take(kv::PagePool::create(
      layout,
      {.pages = pages, .boot_nonce = static_cast<uint16_t>(boot_nonce()), .poison_free = true}));
}

WorkerSessionOptions control_session(const RigOptions& options) {
  WorkerSessionOptions out;
  out.identity.product = "test";
  out.identity.vocabulary_size = kRigVocabulary;
  out.key = options.key;
  out.bounds = {kRigVocabulary, kRigContext};
  out.beat = base::Nanoseconds{100'000'000};
  return out;
}

WorkerOptions worker_options(const RigOptions& options, wire::WorkerRole role, size_t number,
                             const kv::PagePool& pages, const std::string& transfer_address,
                             uint64_t boot) {
  WorkerOptions out;
  out.session = control_session(options);
  wire::WorkerHello& hello = out.session.identity;
  hello.role = role;
  hello.label = fmt::format("{}-{}", to_string(role), number);
  hello.weights = "bf16";
  hello.kv = "bf16";
  hello.layout = pages.layout().id();
  hello.page_tokens = pages.layout().page_tokens;
  hello.context_tokens = kRigContext;
  hello.pages = pages.counts().total;
  hello.sequences_max = options.sequences_max;
  hello.transfer_address = transfer_address;
  hello.http_address = hello.label + "/http";
  hello.boot_nonce = boot;
  out.start_max = base::Nanoseconds{2'000'000'000};
  return out;
}

transfer::remote::SessionOptions handoff_session(const RigOptions& options, Role role,
                                                 const kv::PagePool& pages, uint64_t boot) {
  transfer::remote::SessionOptions out;
  transfer::remote::Hello& hello = out.identity;
  hello.role = role;
  hello.product = "test";
  hello.pool_layout = hello.wire_layout = pages.layout().id();
  hello.page_tokens = static_cast<uint32_t>(pages.layout().page_tokens);
  hello.page_bytes = pages.layout().page_bytes();
  hello.scale_rule = "none";
  hello.chunk_bytes = 4096;
  hello.boot_nonce = boot;
  out.peer_key = options.key;
  out.heartbeat = base::Nanoseconds{50'000'000};
  out.silence_max = base::Nanoseconds{300'000'000};
  out.window_frames = 16;
  return out;
}

FleetOptions fleet_options(const RigOptions& options) {
  FleetOptions out;
  out.member.session = control_session(options);
  out.member.session.identity.role = wire::WorkerRole::kGateway;
  out.member.session.identity.label = "gateway";
  out.member.session.identity.boot_nonce = boot_nonce();
  out.member.reconnect = base::Nanoseconds{20'000'000};
  out.member.after_refusal = base::Nanoseconds{100'000'000};
  out.slots = options.running_max + 256;
  out.retries_max = options.retries_max;
  out.cancel_max = base::Nanoseconds{1'000'000'000};
  out.affinity.page_tokens = options.page_tokens;
  out.attempt_seed = boot_nonce();
  out.outage_max = base::Nanoseconds{500'000'000};
  return out;
}

std::vector<std::string> addresses(std::string_view role, size_t count) {
  std::vector<std::string> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) out.push_back(fmt::format("{}-{}/control", role, i));
  return out;
}

transfer::remote::SenderOptions sender_options(const RigOptions& options, const kv::PagePool& pages,
                                               uint64_t boot) {
  transfer::remote::SenderOptions out;
  out.session = handoff_session(options, Role::kPrefill, pages, boot);
  out.grant_wait = base::Nanoseconds{3'000'000'000};
  return out;
}

transfer::remote::ReceiverOptions receiver_options(const RigOptions& options,
                                                   const kv::PagePool& pages, uint64_t boot) {
  transfer::remote::ReceiverOptions out;
  out.session = handoff_session(options, Role::kDecode, pages, boot);
  out.bounds = {kRigVocabulary, kRigContext};
  out.lease = base::Nanoseconds{3'000'000'000};
  return out;
}

void copy_page(std::span<const std::byte> page, int32_t, std::span<std::byte> out) {
  std::memcpy(out.data(), page.data(), out.size());
}

std::string wrong(std::string_view who, const kv::PagePool& pages) {
  const auto found = kv::validate_idle(pages.snapshot());
  return found.empty() ? "" : fmt::format("{}: {}\n", who, kv::describe(found));
}

}  // namespace

PrefillProcess::PrefillProcess(LocalHub& hub, size_t number, const RigOptions& options,
                               const base::Clock& clock, base::Logger* logger)
    : control(hub.join(fmt::format("prefill-{}/control", number))),
      transport(hub.join("")),
      decoder(engine::testing::small_facts(kRigVocabulary, kRigContext), kLimits),
      pages(make_pages(decoder, options, options.prefill_pages)),
      index(*pages, {.enabled = true, .identity = "stand-in", .secret = {1}}),
      executor(take(engine::Executor::create(decoder, pages->view()))),
      sampler(kRigVocabulary),
      boot(boot_nonce()),
      link(sender_options(options, *pages, boot),
           {*pages, pages->layout(), copy_page, *transport, clock, logger}),
      pool({options.chunk_tokens, options.sequences_max, false},
           {*pages, index, *executor, sampler, link}),
      worker(worker_options(options, wire::WorkerRole::kPrefill, number, *pages, "", boot),
             *control, pool, link, clock, logger) {}

DecodeProcess::DecodeProcess(LocalHub& hub, size_t number, const RigOptions& options,
                             const base::Clock& clock, base::Logger* logger)
    : control(hub.join(fmt::format("decode-{}/control", number))),
      transport(hub.join(fmt::format("decode-{}/pages", number))),
      decoder(engine::testing::small_facts(kRigVocabulary, kRigContext), kLimits),
      pages(make_pages(decoder, options, options.decode_pages)),
      executor(take(engine::Executor::create(decoder, pages->view()))),
      sampler(kRigVocabulary),
      boot(boot_nonce()),
      link(receiver_options(options, *pages, boot), {*pages, *transport, clock, logger}),
      pool({options.sequences_max}, {*executor, sampler, link, nullptr, pages.get()}),
      worker(worker_options(options, wire::WorkerRole::kDecode, number, *pages,
                            transport->address(), boot),
             *control, pool, link, clock, logger) {}

GatewayProcess::GatewayProcess(LocalHub& hub, const RigOptions& options, const base::Clock& clock,
                               base::Logger* logger)
    : transport(hub.join("")),
      membership(addresses("prefill", options.prefill_workers),
                 addresses("decode", options.decode_workers)),
      fleet(fleet_options(options), membership, *transport, clock, logger),
      prefill(fleet),
      decode(fleet),
      router({kRigContext, kRigContext, kRigVocabulary, options.running_max, 256, kRigContext},
             {prefill, decode, clock, registry}) {}

RolesRig::RolesRig(const RigOptions& options)
    : options_(options),
      logger_(log_, base::LogFormat::kText, base::LogLevel::kDebug),
      prefill_(options.prefill_workers),
      decode_(options.decode_workers) {
  clock_.advance(kStep);
  for (size_t i = 0; i < prefill_.size(); ++i) start_prefill(i);
  for (size_t i = 0; i < decode_.size(); ++i) start_decode(i);
  start_gateway();
}

RolesRig::~RolesRig() = default;

void RolesRig::start_prefill(size_t i) {
  prefill_[i].reset();
  prefill_[i] = std::make_unique<PrefillProcess>(hub_, i, options_, clock_, &logger_);
}
void RolesRig::start_decode(size_t i) {
  decode_[i].reset();
  decode_[i] = std::make_unique<DecodeProcess>(hub_, i, options_, clock_, &logger_);
}
void RolesRig::start_gateway() {
  gateway_.reset();
  gateway_ = std::make_unique<GatewayProcess>(hub_, options_, clock_, &logger_);
}

void RolesRig::step() {
  if (gateway_ && !gateway_->stopped) {
    gateway_->router.step();
    if (const auto outage = gateway_->fleet.outage()) gateway_->router.end_waiting(*outage);
  }
  for (const auto& one : prefill_) {
    if (one && !one->stopped) one->worker.step();
  }
  for (const auto& one : decode_) {
    if (one && !one->stopped) one->worker.step();
  }
  clock_.advance(kStep);
}

void RolesRig::run(int steps) {
  for (int i = 0; i < steps; ++i) step();
}

bool RolesRig::join() {
  const auto all_there = [this] {
    for (const MemberStatus& member : gateway_->fleet.members()) {
      if (!member.present) return false;
    }
    return true;
  };
  return run_until(all_there, 2000);
}

RolesRig::Running RolesRig::submit(wire::GenerateRequest request) {
  Running running{
      gateway_->router.next_id(), std::make_shared<engine::testing::CollectingSink>(), {}};
  request.id = running.id;
  running.status = gateway_->router.submit(std::move(request), running.sink);
  return running;
}

RolesRig::Running RolesRig::submit(std::vector<wire::TokenId> prompt, int32_t max_tokens) {
  wire::GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0f;
  return submit(std::move(request));
}

std::string RolesRig::balance() {
  const auto quiet = [this] {
    if (gateway_ && gateway_->fleet.flights() > 0) return false;
    for (const auto& one : prefill_) {
      if (one && (one->worker.attempts() > 0 || one->link.in_transit() > 0)) return false;
    }
    for (const auto& one : decode_) {
      if (one && (one->worker.attempts() > 0 || one->link.in_transit() > 0 ||
                  one->link.quarantined_pages() > 0)) {
        return false;
      }
    }
    return true;
  };
  std::string out;
  if (!run_until(quiet, 20000)) out += "somebody still holds something\n";
  run(100);  // until the gateway has told other threads
  if (gateway_) {
    for (const MemberStatus& member : gateway_->fleet.members()) {
      if (member.sequences != 0 || member.tokens != 0) {
        out += fmt::format("the gateway counts {} sequences and {} tokens at {}\n",
                           member.sequences, member.tokens, member.label);
      }
    }
  }
  for (size_t i = 0; i < prefill_.size(); ++i) {
    if (!prefill_[i]) continue;
    prefill_[i]->index.clear();
    out += wrong(fmt::format("prefill-{}", i), *prefill_[i]->pages);
    if (prefill_[i]->decoder.faults() > 0) out += "prefill read foreign pages\n";
  }
  for (size_t i = 0; i < decode_.size(); ++i) {
    if (!decode_[i]) continue;
    out += wrong(fmt::format("decode-{}", i), *decode_[i]->pages);
    if (decode_[i]->decoder.faults() > 0) out += "decode read foreign pages\n";
  }
  return out;
}

std::vector<wire::TokenId> rig_prompt(uint64_t seed, size_t tokens) {
  std::vector<wire::TokenId> out(tokens);
  for (size_t i = 0; i < tokens; ++i) {
    out[i] = static_cast<wire::TokenId>(base::random_bits(seed, 7, i) % kRigVocabulary);
  }
  return out;
}

std::vector<wire::TokenId> rig_answer(const std::vector<wire::TokenId>& prompt, int32_t tokens) {
  return engine::testing::CheckingDecoder::expected_answer(prompt, tokens, kRigVocabulary);
}

}  // namespace bulkhead::serve::roles::testing
