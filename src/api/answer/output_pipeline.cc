#include "api/answer/output_pipeline.h"

#include <algorithm>

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

void TokenLedger::push(wire::TokenEvent event) {
  const std::string_view bytes = tokenizer_.token_bytes(event.token);
  records_.push_back({std::move(event), raw_total_, raw_total_ + bytes.size()});
  raw_total_ += bytes.size();
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

std::vector<TokenRecord> TokenLedger::take(size_t length) {
  consume(length);
  std::vector<TokenRecord> out;
  while (!records_.empty() && records_.front().end <= raw_taken_) {
    Record& record = records_.front();
    std::string bytes(tokenizer_.token_bytes(record.event.token));
    out.push_back({std::move(record.event), std::move(bytes)});
    records_.pop_front();
  }
  return out;
}

std::vector<TokenRecord> TokenLedger::take_and_cut(size_t length) {
  std::vector<TokenRecord> out = take(length);
  if (!records_.empty() && records_.front().begin < raw_taken_) {
    Record& record = records_.front();
    std::string bytes(tokenizer_.token_bytes(record.event.token));
    bytes.resize(static_cast<size_t>(raw_taken_ - record.begin));
    out.push_back({std::move(record.event), std::move(bytes)});
  }
  records_.clear();
  return out;
}

OutputPipeline::OutputPipeline(const text::Tokenizer& tokenizer, OutputOptions options)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      detokenizer_(tokenizer, options_.skip_special),
      matcher_(options_.stop),
      ledger_(tokenizer) {}

Piece OutputPipeline::deliver(std::string text, bool last) {
  Piece piece;
  piece.text = std::move(text);
  if (!options_.logprobs) return piece;
  piece.tokens = last ? ledger_.take_and_cut(piece.text.size()) : ledger_.take(piece.text.size());
  return piece;
}

Piece OutputPipeline::push(wire::TokenEvent event) {
  if (stopped()) return {};
  ++completion_tokens_;
  std::string text = detokenizer_.push(event.token);
  if (options_.logprobs && !(options_.skip_special && tokenizer_.is_special(event.token))) {
    ledger_.push(std::move(event));
  }
  if (completion_tokens_ <= options_.min_tokens) return deliver(std::move(text), false);
  text = matcher_.push(text);
  if (!stopped()) return deliver(std::move(text), false);
  if (options_.include_stop) text += *matcher_.match();
  return deliver(std::move(text), true);
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
