// From token events to the text of an answer: detokenizer, then stop strings, with
// log-probabilities riding along. The one pipeline for every endpoint, streamed or whole.
//
// Threads: the I/O thread; one pipeline per request.
// Invariants: the pieces joined are the same text under every timing and every split; text of a
// stop string is never given out unless asked for; with log-probabilities, the `bytes` of all
// records joined are the bytes of the text (a record that a stop string cuts is shortened with it);
// what is echoed is never searched for stop strings; after stopped() nothing more comes out.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer/stop_matcher.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "wire/generate.h"

namespace bulkhead::api {

struct OutputOptions {
  std::vector<std::string> stop;
  bool include_stop = false;  // the stop string stays in the text
  bool skip_special = true;
  bool logprobs = false;
  bool every_record = false;  // tokens that are left out of the text have records too
  bool token_ids = false;
  int32_t min_tokens = 0;  // stop strings are not looked for in the text of the first ones
  // End tokens that the generator does not know of: the text ends before them, their record is
  // kept.
  std::vector<wire::TokenId> end_ids;
};

struct TokenRecord {
  wire::TokenEvent event;
  std::string bytes;    // what the token stands for in the text; may be part of a character
  bool hidden = false;  // left out of the text
  bool scored = true;   // false for the first token of a prompt
};

struct Piece {
  std::string text;
  std::vector<TokenRecord> tokens;  // empty unless log-probabilities were asked for
  std::vector<wire::TokenId> ids;   // likewise token ids: generated ones, as they come

  bool empty() const { return text.empty() && tokens.empty() && ids.empty(); }
  void append(Piece piece);
};

// Which bytes of the tokens a text came from, so that a record leaves with its text. Characters of
// the text and raw bytes differ in length where invalid bytes became U+FFFD.
class TokenLedger {
 public:
  explicit TokenLedger(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void push(wire::TokenEvent event, bool hidden, bool scored);
  // At the end: the bytes of an unfinished character became text.
  void flush();
  // The records of the next `length` bytes of text.
  std::vector<TokenRecord> take(size_t length);
  // The same, with a last record shortened to the part that is inside.
  std::vector<TokenRecord> take_and_cut(size_t length);

 private:
  struct Record {
    TokenRecord token;   // its bytes are filled in when it leaves
    uint64_t begin = 0;  // raw bytes since the start
    uint64_t end = 0;
  };
  struct Character {
    uint8_t text_bytes = 0;
    uint8_t raw_bytes = 0;
  };

  void consume(size_t length);
  void give_out(Record& record, uint64_t end, std::vector<TokenRecord>& out) const;
  void append_characters(std::string_view raw);

  const text::Tokenizer& tokenizer_;
  std::deque<Record> records_;
  std::deque<Character> characters_;  // complete, not yet taken
  std::string unfinished_;            // raw bytes of a character that is not complete
  uint64_t raw_total_ = 0;
  uint64_t raw_taken_ = 0;
};

class OutputPipeline {
 public:
  OutputPipeline(const text::Tokenizer& tokenizer, OutputOptions options);

  // A token of the prompt that the answer begins with. `hidden`: not part of the text; not
  // `scored`: the event has no log-probability.
  Piece echo(wire::TokenEvent event, bool hidden, bool scored);
  Piece push(wire::TokenEvent event);
  // The end of the generation: gives out everything held back.
  Piece finish();

  // A stop string or one of `end_ids` came; `completion_tokens` then counts up to the token that
  // completed the string, and without the end token.
  bool stopped() const { return matcher_.match() != nullptr || end_id_.has_value(); }
  const std::string* matched_stop() const { return matcher_.match(); }
  const std::optional<wire::TokenId>& end_id() const { return end_id_; }
  int32_t completion_tokens() const { return completion_tokens_; }

 private:
  Piece deliver(std::string text, bool last);
  Piece end_at(wire::TokenEvent event);

  const text::Tokenizer& tokenizer_;
  const OutputOptions options_;
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;
  TokenLedger ledger_;
  std::vector<wire::TokenId> ids_;  // not given out yet
  std::optional<wire::TokenId> end_id_;
  int32_t completion_tokens_ = 0;
};

}  // namespace bulkhead::api
