// Cuts generated text at markers, wherever the text itself was cut.
//
// Threads: one thread at a time.
// Invariants: what comes out depends on the text and on which of its stretches were marker tokens,
// never on how it arrived; a marker that the tokenizer has as a token is recognised as that token
// alone, so text that only looks like it is text; held back is at most what may become a marker;
// time is linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bulkhead::chat {

// Bit i: marker i.
using MarkerSet = uint32_t;

struct Expected {
  MarkerSet tokens = 0;   // looked for where they are tokens
  MarkerSet spelled = 0;  // looked for where they are spelled out
};

class MarkupStream {
 public:
  // Every marker begins with '<', and none begins another. Bit i of `tokens`: marker i is a token.
  MarkupStream(std::vector<std::string> markers, MarkerSet tokens);

  struct Item {
    std::optional<size_t> marker;
    std::string text;    // the marker's too
    bool token = false;  // the marker came as one
  };

  void push(std::string_view text) { buffer_ += text; }
  void push_token(size_t marker);
  // Nothing more will come.
  void finish() { finished_ = true; }

  // The next stretch of text or expected marker; nothing: more is needed. Markers that are not
  // expected are text.
  std::optional<Item> next(Expected expected);

  const std::string& spelling(size_t marker) const { return markers_[marker]; }

 private:
  struct Token {
    uint64_t begin = 0;  // in the whole text
    size_t marker = 0;
  };

  Item take(size_t length, std::optional<size_t> marker, bool token = false);
  // Length of the text before a marker, or before what may become one; `hit`: the marker.
  size_t scan(std::string_view text, bool more_may_come, MarkerSet set,
              std::optional<size_t>& hit) const;
  void compact();

  const std::vector<std::string> markers_;
  const MarkerSet token_set_;
  std::string buffer_;
  size_t taken_ = 0;     // of the buffer
  uint64_t before_ = 0;  // bytes of the text that are no more in the buffer
  std::deque<Token> token_marks_;
  bool finished_ = false;
};

}  // namespace bulkhead::chat
