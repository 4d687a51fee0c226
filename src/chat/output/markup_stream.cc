#include "chat/output/markup_stream.h"

#include <utility>

#include "base/check.h"

namespace bulkhead::chat {
namespace {

constexpr size_t kMarkersMax = 32;
// What was taken is cut off the buffer when it is so much, and more than the rest.
constexpr size_t kCompactBytes = 4096;

bool has(MarkerSet set, size_t marker) { return ((set >> marker) & 1u) != 0; }

}  // namespace

MarkupStream::MarkupStream(std::vector<std::string> markers, MarkerSet tokens)
    : markers_(std::move(markers)), token_set_(tokens) {
  BH_CHECK(markers_.size() <= kMarkersMax, "a set has room for every marker");
  for (const std::string& marker : markers_) {
    BH_CHECK(marker.starts_with('<'), "a marker begins with '<'");
  }
}

void MarkupStream::push_token(size_t marker) {
  token_marks_.push_back({before_ + buffer_.size(), marker});
  buffer_ += markers_[marker];
}

MarkupStream::Item MarkupStream::take(size_t length, std::optional<size_t> marker, bool token) {
  Item item{marker, buffer_.substr(taken_, length), token};
  taken_ += length;
  compact();
  return item;
}

void MarkupStream::compact() {
  if (taken_ < buffer_.size() && (taken_ < kCompactBytes || taken_ * 2 < buffer_.size())) return;
  buffer_.erase(0, taken_);
  before_ += taken_;
  taken_ = 0;
}

size_t MarkupStream::scan(std::string_view text, bool more_may_come, MarkerSet set,
                          std::optional<size_t>& hit) const {
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = text.substr(at);
    for (size_t i = 0; i < markers_.size(); ++i) {
      if (!has(set, i)) continue;
      if (rest.starts_with(markers_[i])) {
        hit = i;
        return at;
      }
      if (more_may_come && std::string_view(markers_[i]).starts_with(rest)) return at;
    }
  }
  return text.size();
}

std::optional<MarkupStream::Item> MarkupStream::next(Expected expected) {
  std::string_view text = std::string_view(buffer_).substr(taken_);
  if (text.empty()) return std::nullopt;
  bool more_may_come = !finished_;
  if (!token_marks_.empty()) {
    const auto until = static_cast<size_t>(token_marks_.front().begin - before_) - taken_;
    if (until == 0) {
      const size_t marker = token_marks_.front().marker;
      token_marks_.pop_front();
      const bool wanted = has(expected.tokens, marker);
      return take(markers_[marker].size(), wanted ? std::optional(marker) : std::nullopt, true);
    }
    // A marker that is spelled out does not reach into one that is a token.
    text = text.substr(0, until);
    more_may_come = false;
  }
  std::optional<size_t> hit;
  const size_t before = scan(text, more_may_come, expected.spelled & ~token_set_, hit);
  if (before > 0) return take(before, std::nullopt);
  if (hit) return take(markers_[*hit].size(), hit);
  return std::nullopt;
}

}  // namespace bulkhead::chat
