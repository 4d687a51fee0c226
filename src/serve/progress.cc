#include "serve/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace bulkhead::serve {
namespace {

constexpr int kBarWidth = 30;
constexpr base::Nanoseconds kRedraw = std::chrono::milliseconds(80);

}  // namespace

Progress::Progress(std::ostream& out, bool terminal, std::string label, const base::Clock& clock)
    : out_(out),
      terminal_(terminal),
      label_(std::move(label)),
      clock_(clock),
      started_(clock.now()) {}

void Progress::update(uint64_t done, uint64_t total) {
  if (total == 0) return;
  done = std::min(done, total);
  if (terminal_) {
    const base::Nanoseconds now = clock_.now();
    if (done < total && open_line_ && now - drawn_ < kRedraw) return;
    drawn_ = now;
    draw(done, total);
    return;
  }
  const int tenth = static_cast<int>(done * 10 / total);
  if (tenth <= tenth_) return;
  tenth_ = tenth;
  draw(done, total);
}

void Progress::draw(uint64_t done, uint64_t total) {
  const double seconds = std::max(1e-9, base::to_seconds(clock_.now() - started_));
  const double rate = static_cast<double>(done) / seconds;
  const double eta = static_cast<double>(total - done) / std::max(1.0, rate);
  const std::string facts = fmt::format("{:3}%  {} of {}, {}/s, {:.0f} s left", done * 100 / total,
                                        base::format_bytes(done), base::format_bytes(total),
                                        base::format_bytes(static_cast<uint64_t>(rate)), eta);
  if (terminal_) {
    const auto filled = static_cast<size_t>(done * kBarWidth / total);
    out_ << fmt::format("\r{} [{}{}] {}\033[K", label_, std::string(filled, '#'),
                        std::string(kBarWidth - filled, '.'), facts)
         << std::flush;
    open_line_ = true;
  } else {
    out_ << label_ << ' ' << facts << '\n' << std::flush;
  }
}

void Progress::finish() {
  if (open_line_) out_ << '\n' << std::flush;
  open_line_ = false;
}

}  // namespace bulkhead::serve
