#include "apps/bench/load_progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace bulkhead::apps {

std::string progress_text(const LoadProgress& progress) {
  const double seconds = std::max(1e-9, progress.elapsed_s);
  std::string text =
      fmt::format("{} of {}, {} open, ", progress.done, progress.total, progress.open);
  if (progress.failed > 0) text += fmt::format("{} failed, ", progress.failed);
  text += fmt::format("{:.1f} tok/s, ", static_cast<double>(progress.output_tokens) / seconds);
  if (progress.done == 0) return text + fmt::format("{:.0f} s so far", seconds);
  const double each = seconds / static_cast<double>(progress.done);
  return text +
         fmt::format("{:.0f} s left", each * static_cast<double>(progress.total - progress.done));
}

void LoadProgressLine::update(const LoadProgress& progress) {
  if (!terminal_) return;
  out_ << "\r" << progress_text(progress) << "\033[K" << std::flush;
  open_line_ = true;
}

void LoadProgressLine::finish() {
  if (open_line_) out_ << "\r\033[K" << std::flush;
  open_line_ = false;
}

}  // namespace bulkhead::apps
