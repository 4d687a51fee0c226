// The two sides of a handoff as tests run them: prefill "computes" pages whose bytes are a function
// of transfer, page and place, decode checks every byte of what arrives.
//
// Threads: one. Invariants: conversion changes every byte, so that one from anywhere else shows;
// what arrived is given back at once, so that pages are reused as soon as they can be.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kv/page_pool.h"
#include "transfer/remote/receiver.h"
#include "transfer/remote/sender.h"

namespace bulkhead::transfer::remote {

// How one transfer came out on one side.
struct PrefillOutcome {
  std::optional<FaultReport> end;  // fault kNone: well
};
struct DecodeOutcome {
  std::optional<FaultReport> end;  // set when it ended otherwise than by arriving
  bool arrived = false;
  bool right = false;  // every byte and every token as computed
};

kv::PageLayout test_layout();
SessionOptions test_session(Role role);
// One page's bytes as prefill computes them.
std::byte source_byte(TransferId id, size_t page_index, size_t offset);
void convert_for_test(std::span<const std::byte> page, int32_t tokens, std::span<std::byte> out);

class PrefillSide {
 public:
  explicit PrefillSide(int32_t pages, kv::integrity::Mode integrity = kv::integrity::Mode::kOff);
  void connect(std::unique_ptr<Connection> connection, const base::Clock& clock);

  // False when there are no pages for it, or no session.
  bool open(TransferId id, int32_t tokens);
  // Computes the next page's tokens, and the first token after the last page. False when done.
  bool compute(TransferId id);
  // One page of every prompt that is not done.
  void compute_some();
  void poll();
  bool is_idle() const { return prompts_.empty() && sender->open_transfers() == 0; }
  void forget() { prompts_.clear(); }

  SenderOptions options;
  std::unique_ptr<kv::PagePool> pages;
  std::unique_ptr<Sender> sender;
  std::map<TransferId, PrefillOutcome> outcomes;
  // Of the prompt's own table, before its pages are offered.
  std::function<void(kv::PagePool&, const kv::PageTable&)> tamper;

 private:
  struct Prompt {
    kv::PageTable pages;
    wire::SequenceState state;
    int32_t tokens = 0;
    bool done = false;
  };
  void fill(TransferId id, const kv::PageTable& table, int32_t begin, int32_t end);

  std::map<TransferId, Prompt> prompts_;
};

class DecodeSide {
 public:
  explicit DecodeSide(int32_t pages, kv::integrity::Mode integrity = kv::integrity::Mode::kOff);
  void connect(std::unique_ptr<Connection> connection, const base::Clock& clock);

  // False when there are no pages for it, or no session.
  bool grant(TransferId id, int32_t tokens);
  void poll();
  bool is_idle() const { return receiver->open_grants() == 0; }

  ReceiverOptions options;
  std::unique_ptr<kv::PagePool> pages;
  std::unique_ptr<Receiver> receiver;
  std::map<TransferId, DecodeOutcome> outcomes;

 private:
  bool is_right(const Arrival& arrival) const;
};

}  // namespace bulkhead::transfer::remote
