// Any bytes as a frame between workers, and as a conversation with either side after a greeting as
// it should be. Nothing may crash, both sides get every page back, and what arrives is right.
//
// A conversation is a list of: type, number of bytes in two bytes, body. Grant ids that are zero
// mean the grant that is open, which no stranger could guess.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/check.h"
#include "transfer/remote/codec.h"
#include "transfer/remote/testing/fake_network.h"
#include "transfer/remote/testing/raw_frames.h"
#include "transfer/remote/testing/sides.h"

namespace {

using bulkhead::base::ManualClock;
using bulkhead::base::Nanoseconds;
using bulkhead::transfer::remote::DecodeSide;
using bulkhead::transfer::remote::FakeNetwork;
using bulkhead::transfer::remote::Frame;
using bulkhead::transfer::remote::Grant;
using bulkhead::transfer::remote::GrantId;
using bulkhead::transfer::remote::Message;
using bulkhead::transfer::remote::PrefillSide;
using bulkhead::transfer::remote::Role;
using bulkhead::transfer::remote::Session;

constexpr int32_t kPages = 8;

void decode_whole(std::span<const std::byte> input) {
  const auto decoded = bulkhead::transfer::remote::decode_frame(input);
  if (!decoded.ok()) {
    BH_CHECK(!decoded.error().message.empty(), "an error without a word");
    return;
  }
  Frame again;
  encode_frame(decoded->header, decoded->message, again);
  BH_CHECK(std::equal(again.begin(), again.end(), input.begin(), input.end()),
           "a frame that is not what was read");
}

struct FillIn {
  GrantId grant;
  template <typename M>
  void operator()(M& message) const {
    if constexpr (requires { message.grant; }) {
      if constexpr (std::is_same_v<decltype(message.grant), GrantId>) {
        if (message.grant == GrantId{}) message.grant = grant;
      }
    }
  }
};

// Says what the input says to one honest side.
template <typename Step>
void converse(std::span<const std::byte> input, Session& peer, Step step) {
  GrantId open;
  const auto listen = [&] {
    step();
    peer.tick();
    while (auto message = peer.poll()) {
      if (const auto* grant = std::get_if<Grant>(&*message)) open = grant->grant;
    }
  };
  for (int32_t i = 0; i < 4; ++i) listen();
  while (input.size() > 3) {
    const auto type = std::to_integer<uint16_t>(input[0]);
    const size_t stated =
        std::to_integer<size_t>(input[1]) + std::to_integer<size_t>(input[2]) * 256;
    const size_t bytes = std::min(stated, input.size() - 3);
    const Frame frame = bulkhead::transfer::remote::frame_of(type, input.subspan(3, bytes));
    auto decoded = bulkhead::transfer::remote::decode_frame(frame);
    if (decoded.ok()) {
      std::visit(FillIn{open}, decoded->message);
      peer.post(decoded->message);
    }
    listen();
    input = input.subspan(3 + bytes);
  }
}

void face_decode(std::span<const std::byte> input) {
  ManualClock clock;
  FakeNetwork network(clock);
  auto ends = network.connect();
  DecodeSide side(kPages);
  Session peer(bulkhead::transfer::remote::test_session(Role::kPrefill), std::move(ends.first),
               clock);
  side.connect(std::move(ends.second), clock);
  bool granted = false;
  converse(input, peer, [&] {
    side.poll();
    if (!granted && side.receiver->session().is_open()) granted = side.grant({1, 1}, 40);
    clock.advance(Nanoseconds{10'000'000});
  });
  for (const auto& [id, outcome] : side.outcomes) {
    BH_CHECK(!outcome.arrived || outcome.right, "wrong bytes");
  }
  side.receiver.reset();
  BH_CHECK(side.pages->counts().available == kPages, "pages that did not come back");
}

void face_prefill(std::span<const std::byte> input) {
  ManualClock clock;
  FakeNetwork network(clock);
  auto ends = network.connect();
  PrefillSide side(kPages);
  side.connect(std::move(ends.first), clock);
  Session peer(bulkhead::transfer::remote::test_session(Role::kDecode), std::move(ends.second),
               clock);
  bool opened = false;
  converse(input, peer, [&] {
    side.poll();
    if (!opened && side.sender->session().is_open()) opened = side.open({0, 0}, 20);
    side.compute_some();
    clock.advance(Nanoseconds{10'000'000});
  });
  side.sender.reset();
  side.forget();
  BH_CHECK(side.pages->counts().available == kPages, "pages that did not come back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  decode_whole(input);
  if (size == 0) return 0;
  if ((data[0] & 1) == 0) {
    face_decode(input.subspan(1));
  } else {
    face_prefill(input.subspan(1));
  }
  return 0;
}
