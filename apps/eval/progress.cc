#include "apps/eval/progress.h"

#include <fmt/format.h>

namespace bulkhead::apps::eval {

std::string duration_text(double seconds) {
  if (seconds < 99.5) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<int64_t>(seconds / 60.0 + 0.5);
  if (minutes < 100) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string Progress::text(double elapsed_s) const {
  std::string text = fmt::format("{} {} of {}", task_, before_ + done_, total_);
  if (done_ == 0) return text;
  const double asked = static_cast<double>(done_);
  // What is no share, such as a log-likelihood, says nothing here.
  if (sum_ >= 0.0) text += fmt::format(", {} {:.1f} %", measure_, 100.0 * sum_ / asked);
  if (prompt_tokens_ > 0) {
    text += fmt::format(
        ", {:.0f} % of prompt tokens from the cache",
        100.0 * static_cast<double>(cached_tokens_) / static_cast<double>(prompt_tokens_));
  }
  const double left = static_cast<double>(total_ - before_ - done_);
  return text + ", " + duration_text(elapsed_s / asked * left) + " left";
}

void Progress::add(const Outcome& outcome, double elapsed_s) {
  ++done_;
  prompt_tokens_ += outcome.reply.prompt_tokens;
  cached_tokens_ += outcome.reply.cached_tokens;
  if (!outcome.verdict.measures.empty()) {
    measure_ = outcome.verdict.measures.front().name;
    sum_ += outcome.verdict.measures.front().value;
  }
  if (terminal_) {
    out_ << "\r" << text(elapsed_s) << "\033[K" << std::flush;
    open_line_ = true;
    return;
  }
  const uint64_t tenths = 10 * (before_ + done_) / total_;
  if (tenths > tenths_) out_ << text(elapsed_s) << "\n" << std::flush;
  tenths_ = tenths;
}

void Progress::finish() {
  if (open_line_) out_ << "\r\033[K" << std::flush;
  open_line_ = false;
}

}  // namespace bulkhead::apps::eval
