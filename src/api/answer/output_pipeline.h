// From token events to the text of an answer: detokenizer, then stop strings, then the parser of
// reasoning and tool calls, with log-probabilities riding along. The one pipeline for every
// endpoint, streamed or whole.
//
// Threads: the I/O thread; one pipeline per request.
// Invariants: the pieces joined are the same text under every timing and every split; text of a
// stop string is never given out unless asked for; with log-probabilities, the `bytes` of all
// records joined are the bytes of the text (a record that a stop string cuts is shortened with it,
// one that is markup or reasoning too has its part of the text alone); stop strings are looked for
// in everything that the model writes, markup too, and in nothing that is echoed; after stopped()
// nothing more comes out.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer/stop_matcher.h"
#include "chat/output/output_parser.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "wire/generate.h"

namespace bulkhead::api {

// How the model's text is taken apart into reasoning, content and calls.
struct OutputMarkup {
  chat::OutputParserOptions parser;
  // Tokens that are markers, with their places in chat::output_markers().
  std::vector<std::pair<wire::TokenId, size_t>> tokens;
  bool show_reasoning = true;
  bool whole_reasoning = false;  // told in one piece, once it is complete
};

struct OutputOptions {
  std::shared_ptr<const OutputMarkup> markup;  // null: all text is content
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

// What is new of a tool call.
struct CallPiece {
  int32_t index = 0;  // of the call in its choice
  bool begins = false;
  std::string id;  // where it begins; empty: the model gives none
  std::string name;
  std::string arguments;
};

struct Piece {
  std::string text;
  std::string reasoning;
  std::vector<CallPiece> calls;     // of one index at most one
  std::vector<TokenRecord> tokens;  // empty unless log-probabilities were asked for
  std::vector<wire::TokenId> ids;   // likewise token ids: generated ones, as they come

  bool empty() const {
    return text.empty() && reasoning.empty() && calls.empty() && tokens.empty() && ids.empty();
  }
  CallPiece& call(int32_t index);
  void append(Piece piece);
};

// Calls of a choice by how they ended.
struct CallCounts {
  int32_t complete = 0;
  int32_t malformed = 0;
  int32_t truncated = 0;
};

// Which bytes of the tokens a text came from, so that a record leaves with its text. Characters of
// the text and raw bytes differ in length where invalid bytes became U+FFFD.
class TokenLedger {
 public:
  explicit TokenLedger(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void push(wire::TokenEvent event, bool hidden, bool scored);
  // At the end: the bytes of an unfinished character became text.
  void flush();
  // Goes over the next `length` bytes of text, which are told or not; appends the records that end
  // in them and of which anything was told.
  void take(size_t length, bool told, std::vector<TokenRecord>& out);
  // At the end: a last record with the part of it that was told.
  void cut(std::vector<TokenRecord>& out);

 private:
  struct Record {
    TokenRecord token;   // its bytes are filled in as they are told
    uint64_t begin = 0;  // raw bytes since the start
    uint64_t end = 0;
    bool told = false;  // or a part of it
  };
  struct Character {
    uint8_t text_bytes = 0;
    uint8_t raw_bytes = 0;
  };

  void tell(Record& record, uint64_t begin, uint64_t end) const;
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
  bool stopped() const {
    return matcher_.match() != nullptr || end_id_.has_value() || has_its_call();
  }
  // The one tool call that was wanted is complete.
  bool has_its_call() const { return parser_ != nullptr && parser_->done(); }
  const std::string* matched_stop() const { return matcher_.match(); }
  const std::optional<wire::TokenId>& end_id() const { return end_id_; }
  int32_t completion_tokens() const { return completion_tokens_; }
  // Of them: those that begin in the model's reasoning, its markers left out.
  int32_t reasoning_tokens() const { return reasoning_tokens_; }
  const CallCounts& calls() const { return calls_; }

 private:
  // A marker token in the text.
  struct Marker {
    uint64_t begin = 0;
    size_t length = 0;
    size_t place = 0;
  };

  std::string detokenize(wire::TokenId id, std::optional<size_t> marker);
  std::optional<size_t> marker_of(wire::TokenId id) const;
  Piece deliver(std::string text, bool last);
  void deliver_parsed(std::string text, bool last, Piece& piece);
  void parse(std::string_view text, Piece& piece);
  void take_events(std::vector<chat::OutputEvent> events, Piece& piece);
  void take_event(chat::OutputEvent& event, Piece& piece);
  void count_tokens(const chat::OutputEvent& event);
  void tell_reasoning(std::string text, bool complete, Piece& piece);
  Piece end_at(wire::TokenEvent event);

  const text::Tokenizer& tokenizer_;
  const OutputOptions options_;
  text::Detokenizer detokenizer_;
  StopMatcher matcher_;
  TokenLedger ledger_;
  std::unique_ptr<chat::OutputParser> parser_;
  std::deque<Marker> markers_;         // that the parser has not seen
  std::deque<uint64_t> token_begins_;  // in the text, of tokens that no event covers yet
  std::string unparsed_;               // may hold the first part of a marker
  std::string reasoning_;              // held back until it is complete
  uint64_t detokenized_ = 0;           // bytes of text
  uint64_t parsed_ = 0;                // that went into the parser
  uint64_t accounted_ = 0;             // that came out again
  CallCounts calls_;
  std::vector<wire::TokenId> ids_;  // not given out yet
  std::optional<wire::TokenId> end_id_;
  int32_t completion_tokens_ = 0;
  int32_t reasoning_tokens_ = 0;
};

// The pieces that `piece` is streamed as: reasoning, content, and each call's beginning and
// arguments on their own, in this order.
std::vector<Piece> streamed_parts(Piece piece);

}  // namespace bulkhead::api
