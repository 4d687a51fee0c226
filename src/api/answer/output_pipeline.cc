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

void TokenLedger::consume(size_t length) {
  while (length > 0 && !characters_.empty()) {
    length -= std::min<size_t>(length, characters_.front().text_bytes);
    raw_taken_ += characters_.front().raw_bytes;
    characters_.pop_front();
  }
}

void TokenLedger::give_out(Record& record, uint64_t end, std::vector<TokenRecord>& out) const {
  if (!record.token.hidden) {
    const std::string_view bytes = tokenizer_.token_bytes(record.token.event.token);
    record.token.bytes = bytes.substr(0, static_cast<size_t>(end - record.begin));
  }
  out.push_back(std::move(record.token));
}

std::vector<TokenRecord> TokenLedger::take(size_t length) {
  consume(length);
  std::vector<TokenRecord> out;
  while (!records_.empty() && records_.front().end <= raw_taken_) {
    give_out(records_.front(), records_.front().end, out);
    records_.pop_front();
  }
  return out;
}

std::vector<TokenRecord> TokenLedger::take_and_cut(size_t length) {
  std::vector<TokenRecord> out = take(length);
  if (!records_.empty() && records_.front().begin < raw_taken_) {
    give_out(records_.front(), raw_taken_, out);
  }
  records_.clear();
  return out;
}

void Piece::append(Piece piece) {
  text += piece.text;
  tokens.insert(tokens.end(), std::make_move_iterator(piece.tokens.begin()),
                std::make_move_iterator(piece.tokens.end()));
  ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
}

OutputPipeline::OutputPipeline(const text::Tokenizer& tokenizer, OutputOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      detokenizer_(tokenizer, false),  // which tokens are left out is decided here
      matcher_(options_.stop),
      ledger_(tokenizer) {}

Piece OutputPipeline::deliver(std::string text, bool last) {
  Piece piece;
  piece.text = std::move(text);
  piece.ids = std::exchange(ids_, {});
  if (!options_.logprobs) return piece;
  piece.tokens = last ? ledger_.take_and_cut(piece.text.size()) : ledger_.take(piece.text.size());
  return piece;
}

Piece OutputPipeline::echo(wire::TokenEvent event, bool hidden, bool scored) {
  std::string text = hidden ? std::string() : detokenizer_.push(event.token);
  if (options_.logprobs) ledger_.push(std::move(event), hidden, scored);
  return deliver(std::move(text), false);
}

Piece OutputPipeline::push(wire::TokenEvent event) {
  if (stopped()) return {};
  const auto& ends = options_.end_ids;
  if (std::find(ends.begin(), ends.end(), event.token) != ends.end()) {
    return end_at(std::move(event));
  }
  ++completion_tokens_;
  if (options_.token_ids) ids_.push_back(event.token);
  const bool hidden = options_.skip_special && tokenizer_.is_special(event.token);
  std::string text = hidden ? std::string() : detokenizer_.push(event.token);
  if (options_.logprobs && (!hidden || options_.every_record)) {
    ledger_.push(std::move(event), hidden, true);
  }
  if (completion_tokens_ <= options_.min_tokens) return deliver(std::move(text), false);
  text = matcher_.push(text);
  if (matched_stop() == nullptr) return deliver(std::move(text), false);
  if (options_.include_stop) text += *matcher_.match();
  return deliver(std::move(text), true);
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
