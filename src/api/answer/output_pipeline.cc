#include "api/answer/output_pipeline.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/utf8.h"

namespace bulkhead::api {
namespace {

constexpr uint8_t kReplacementBytes = 3;  // U+FFFD in UTF-8

}  // namespace

void TokenLedger::append_characters(std::string_view raw) {
  while (!raw.empty()) {
    const base::Utf8Char c = base::decode_utf8(raw);
    const auto length = static_cast<uint8_t>(c.length);
    characters_.push_back({c.valid ? length : kReplacementBytes, length});
    raw.remove_prefix(c.length);
  }
}

void TokenLedger::push(wire::TokenEvent event, bool hidden, bool scored) {
  const std::string_view bytes = hidden ? std::string_view() : tokenizer_.token_bytes(event.token);
  const uint64_t end = raw_total_ + bytes.size();
  records_.push_back({{std::move(event), {}, hidden, scored}, raw_total_, end});
  raw_total_ = end;
  unfinished_ += bytes;
  const size_t complete = base::complete_utf8_prefix(unfinished_);
  append_characters(std::string_view(unfinished_).substr(0, complete));
  unfinished_.erase(0, complete);
}

void TokenLedger::flush() {
  append_characters(unfinished_);
  unfinished_.clear();
}

void TokenLedger::take(size_t length, bool told, std::vector<TokenRecord>& out) {
  const uint64_t from = raw_taken_;
  while (length > 0 && !characters_.empty()) {
    length -= std::min<size_t>(length, characters_.front().text_bytes);
    raw_taken_ += characters_.front().raw_bytes;
    characters_.pop_front();
  }
  for (Record& record : records_) {
    if (record.begin >= raw_taken_ && record.end > raw_taken_) break;
    if (told) tell(record, std::max(record.begin, from), std::min(record.end, raw_taken_));
  }
  while (!records_.empty() && records_.front().end <= raw_taken_) {
    if (records_.front().told) out.push_back(std::move(records_.front().token));
    records_.pop_front();
  }
}

// The raw bytes from `begin` to `end`; a record without any is told where it stands.
void TokenLedger::tell(Record& record, uint64_t begin, uint64_t end) const {
  if (begin >= end && record.begin < record.end) return;
  record.told = true;
  if (record.token.hidden || begin >= end) return;
  const std::string_view bytes = tokenizer_.token_bytes(record.token.event.token);
  record.token.bytes +=
      bytes.substr(static_cast<size_t>(begin - record.begin), static_cast<size_t>(end - begin));
}

void TokenLedger::cut(std::vector<TokenRecord>& out) {
  if (!records_.empty() && records_.front().told) {
    out.push_back(std::move(records_.front().token));
  }
  records_.clear();
}

CallPiece& Piece::call(int32_t index) {
  for (CallPiece& one : calls) {
    if (one.index == index) return one;
  }
  calls.emplace_back().index = index;
  return calls.back();
}

void Piece::append(Piece piece) {
  text += piece.text;
  reasoning += piece.reasoning;
  for (CallPiece& one : piece.calls) {
    CallPiece& call = this->call(one.index);
    if (one.begins) {
      call.begins = true;
      call.id = std::move(one.id);
      call.name = std::move(one.name);
    }
    call.arguments += one.arguments;
  }
  tokens.insert(tokens.end(), std::make_move_iterator(piece.tokens.begin()),
                std::make_move_iterator(piece.tokens.end()));
  ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
}

std::vector<Piece> streamed_parts(Piece piece) {
  std::vector<Piece> parts;
  parts.reserve(2 + 2 * piece.calls.size());
  if (!piece.reasoning.empty()) {
    parts.emplace_back().reasoning = std::exchange(piece.reasoning, {});
  }
  std::vector<CallPiece> calls = std::exchange(piece.calls, {});
  if (!piece.empty()) parts.push_back(std::move(piece));
  for (CallPiece& call : calls) {
    std::string arguments = std::exchange(call.arguments, {});
    const int32_t index = call.index;
    if (call.begins) parts.emplace_back().calls.push_back(std::move(call));
    if (arguments.empty()) continue;
    CallPiece& more = parts.emplace_back().call(index);
    more.arguments = std::move(arguments);
  }
  return parts;
}

OutputPipeline::OutputPipeline(const text::Tokenizer& tokenizer, OutputOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      detokenizer_(tokenizer, false),  // which tokens are left out is decided here
      matcher_(options_.stop),
      ledger_(tokenizer) {
  if (options_.markup) parser_ = std::make_unique<chat::OutputParser>(options_.markup->parser);
}

Piece OutputPipeline::deliver(std::string text, bool last) {
  Piece piece;
  piece.ids = std::exchange(ids_, {});
  if (parser_) {
    deliver_parsed(std::move(text), last, piece);
  } else {
    if (options_.logprobs) ledger_.take(text.size(), true, piece.tokens);
    piece.text = std::move(text);
  }
  if ((last || has_its_call()) && options_.logprobs) ledger_.cut(piece.tokens);
  return piece;
}

Piece OutputPipeline::echo(wire::TokenEvent event, bool hidden, bool scored) {
  std::string text = hidden ? std::string() : detokenizer_.push(event.token);
  if (options_.logprobs) ledger_.push(std::move(event), hidden, scored);
  return deliver(std::move(text), false);
}

std::optional<size_t> OutputPipeline::marker_of(wire::TokenId id) const {
  if (!parser_) return std::nullopt;
  for (const auto& [token, place] : options_.markup->tokens) {
    if (token == id) return place;
  }
  return std::nullopt;
}

Piece OutputPipeline::push(wire::TokenEvent event) {
  if (stopped()) return {};
  const auto& ends = options_.end_ids;
  if (std::find(ends.begin(), ends.end(), event.token) != ends.end()) {
    return end_at(std::move(event));
  }
  ++completion_tokens_;
  if (options_.token_ids) ids_.push_back(event.token);
  const std::optional<size_t> marker = marker_of(event.token);
  const bool hidden = !marker && options_.skip_special && tokenizer_.is_special(event.token);
  if (parser_) token_begins_.push_back(detokenized_);
  std::string text = hidden ? std::string() : detokenize(event.token, marker);
  if (options_.logprobs && (!hidden || options_.every_record)) {
    ledger_.push(std::move(event), hidden, true);
  }
  if (completion_tokens_ <= options_.min_tokens) return deliver(std::move(text), false);
  text = matcher_.push(text);
  if (matched_stop() == nullptr) return deliver(std::move(text), false);
  if (options_.include_stop) text += *matcher_.match();
  return deliver(std::move(text), true);
}

std::string OutputPipeline::detokenize(wire::TokenId id, std::optional<size_t> marker) {
  std::string text = detokenizer_.push(id);
  detokenized_ += text.size();
  if (marker) {
    // A control token begins and ends with whole characters, so the text ends with it.
    const size_t length = tokenizer_.token_bytes(id).size();
    markers_.push_back({detokenized_ - length, length, *marker});
  }
  return text;
}

void OutputPipeline::deliver_parsed(std::string text, bool last, Piece& piece) {
  unparsed_ += text;
  std::string_view rest = unparsed_;
  while (!markers_.empty()) {
    const Marker marker = markers_.front();
    const auto before = static_cast<size_t>(marker.begin - parsed_);
    if (before >= rest.size()) break;
    parse(rest.substr(0, before), piece);
    rest.remove_prefix(before);
    // A stop string may hold back, or cut, the end of it.
    if (rest.size() < marker.length) break;
    markers_.pop_front();
    rest.remove_prefix(marker.length);
    parsed_ += marker.length;
    take_events(parser_->token(marker.place), piece);
  }
  const bool inside = !markers_.empty() && markers_.front().begin == parsed_ && !rest.empty();
  if (!inside || last) parse(std::exchange(rest, {}), piece);
  unparsed_ = std::string(rest);
  if (!last) return;
  take_events(parser_->finish(), piece);
  tell_reasoning({}, true, piece);
}

void OutputPipeline::parse(std::string_view text, Piece& piece) {
  if (text.empty()) return;
  parsed_ += text.size();
  take_events(parser_->text(text), piece);
}

void OutputPipeline::take_events(std::vector<chat::OutputEvent> events, Piece& piece) {
  for (chat::OutputEvent& event : events) {
    const bool told = event.kind == chat::OutputEvent::Kind::kContent;
    if (options_.logprobs) ledger_.take(event.source_bytes, told, piece.tokens);
    count_tokens(event);
    take_event(event, piece);
  }
}

void OutputPipeline::take_event(chat::OutputEvent& event, Piece& piece) {
  using Kind = chat::OutputEvent::Kind;
  switch (event.kind) {
    case Kind::kReasoning:
      return tell_reasoning(std::move(event.text), false, piece);
    case Kind::kDropped:
      return;
    case Kind::kContent:
      tell_reasoning({}, true, piece);
      piece.text += event.text;
      return;
    case Kind::kCallStart: {
      tell_reasoning({}, true, piece);
      CallPiece& call = piece.call(event.call);
      call.begins = true;
      call.id = std::move(event.id);
      call.name = std::move(event.text);
      return;
    }
    case Kind::kArguments:
      piece.call(event.call).arguments += event.text;
      return;
    case Kind::kCallEnd:
      ++(event.outcome == chat::CallOutcome::kComplete    ? calls_.complete
         : event.outcome == chat::CallOutcome::kMalformed ? calls_.malformed
                                                          : calls_.truncated);
      return;
  }
}

void OutputPipeline::tell_reasoning(std::string text, bool complete, Piece& piece) {
  if (!options_.markup->show_reasoning) return;
  if (options_.markup->whole_reasoning && !complete) {
    reasoning_ += text;
    return;
  }
  piece.reasoning += std::exchange(reasoning_, {});
  piece.reasoning += text;
}

void OutputPipeline::count_tokens(const chat::OutputEvent& event) {
  accounted_ += event.source_bytes;
  const bool reasoning = event.kind == chat::OutputEvent::Kind::kReasoning;
  while (!token_begins_.empty() && token_begins_.front() < accounted_) {
    if (reasoning) ++reasoning_tokens_;
    token_begins_.pop_front();
  }
}

Piece OutputPipeline::end_at(wire::TokenEvent event) {
  Piece piece = finish();
  if (stopped()) return piece;  // what was held back completed a stop string
  end_id_ = event.token;
  if (options_.logprobs) piece.tokens.push_back({std::move(event), {}, true, true});
  return piece;
}

Piece OutputPipeline::finish() {
  if (stopped()) return {};
  const std::string rest = detokenizer_.flush();
  detokenized_ += rest.size();
  ledger_.flush();
  std::string text = completion_tokens_ <= options_.min_tokens ? rest : matcher_.push(rest);
  if (stopped()) {
    if (options_.include_stop) text += *matcher_.match();
  } else {
    text += matcher_.flush();
  }
  return deliver(std::move(text), true);
}

}  // namespace bulkhead::api
