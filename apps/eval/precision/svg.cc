#include "apps/eval/precision/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace bulkhead::apps::eval {
namespace {

constexpr double kHeight = 314, kLeft = 62, kRight = 14, kTop = 48, kBottom = 58;
constexpr double kWidthMin = 400, kCategoryWidth = 96, kNameWidth = 56;
constexpr std::array kColours = {"#1f6fb2", "#c2571a", "#3c8a3c", "#8a4fa8", "#b0912a", "#666666"};
constexpr std::string_view kStyle = R"(<style>
text { font: 11px sans-serif; fill: #555; }
.title { font-weight: bold; fill: #333; }
.axis { stroke: #888; fill: none; }
.grid { stroke: #ddd; }
@media (prefers-color-scheme: dark) {
  text { fill: #aaa; } .title { fill: #ddd; } .grid { stroke: #333; }
}
</style>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out;
}

struct Axis {
  double low = 0.0, high = 1.0, step = 1.0;
};

// Round steps, about five of them, that hold both.
Axis axis_of(double least, double most) {
  if (!(most > least)) most = least + 1.0;
  const double raw = (most - least) / 5.0;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10.0 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) {
      step = factor * power;
      break;
    }
  }
  return {step * std::floor(least / step + 1e-9), step * std::ceil(most / step - 1e-9), step};
}

class Drawing {
 public:
  Drawing(const SvgChart& chart, double left) : chart_(chart), left_(left) {
    double least = chart.from_zero ? 0.0 : std::numeric_limits<double>::infinity();
    double most = 0.0, x_most = 0.0;
    for (const SvgSeries& series : chart.series) {
      for (const SvgPoint& point : series.points) {
        least = std::min(least, point.low);
        most = std::max(most, point.high);
        x_most = std::max(x_most, point.x);
      }
    }
    y_ = axis_of(std::isfinite(least) ? least : 0.0, most);
    x_ = chart.categories.empty()
             ? axis_of(0.0, x_most)
             : Axis{-0.5, static_cast<double>(chart.categories.size()) - 0.5, 1.0};
  }

  static double width_of(const SvgChart& chart) {
    return std::max(kWidthMin,
                    kLeft + kRight + kCategoryWidth * static_cast<double>(chart.categories.size()));
  }

  std::string text() const {
    std::string out = fmt::format("<g transform=\"translate({:.0f},0)\">\n", left_);
    out += fmt::format("<text class=\"title\" x=\"{}\" y=\"18\">{}</text>\n", kLeft,
                       escaped(chart_.title));
    out += y_ticks() + (chart_.categories.empty() ? x_ticks() : category_names());
    out += fmt::format("<path class=\"axis\" d=\"M{} {}v{:.0f}h{:.0f}\"/>\n", kLeft, kTop, height(),
                       width());
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       kLeft + width() / 2, kHeight - 8, escaped(chart_.x_label));
    out += fmt::format(
        "<text transform=\"translate(14,{:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        kTop + height() / 2, escaped(chart_.y_label));
    for (size_t i = 0; i < chart_.series.size(); ++i) out += series_text(i);
    return out + "</g>\n";
  }

 private:
  double width() const { return width_of(chart_) - kLeft - kRight; }
  static double height() { return kHeight - kTop - kBottom; }
  double at_x(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * width(); }
  double at_y(double y) const {
    return kTop + height() - (y - y_.low) / (y_.high - y_.low) * height();
  }

  std::string y_ticks() const {
    std::string out;
    for (double tick = y_.low; tick <= y_.high + y_.step / 2; tick += y_.step) {
      out += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}h{:.0f}\"/>\n", kLeft, at_y(tick),
                         width());
      out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n",
                         kLeft - 6, at_y(tick) + 4, std::abs(tick) < 1e-12 ? 0.0 : tick);
    }
    return out;
  }

  std::string x_ticks() const {
    std::string out;
    for (double tick = x_.low; tick <= x_.high + x_.step / 2; tick += x_.step) {
      out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>\n",
                         at_x(tick), kHeight - kBottom + 16, tick);
    }
    return out;
  }

  // A name's words stand below each other.
  std::string category_names() const {
    std::string out;
    for (size_t i = 0; i < chart_.categories.size(); ++i) {
      std::string_view name = chart_.categories[i];
      for (double y = kHeight - kBottom + 16; !name.empty(); y += 13) {
        const size_t blank = std::min(name.find(' '), name.size());
        out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                           at_x(static_cast<double>(i)), y, escaped(name.substr(0, blank)));
        name.remove_prefix(std::min(name.size(), blank + 1));
      }
    }
    return out;
  }

  // Points of one category stand side by side, in the middle of its place.
  double place_of(size_t series, const SvgPoint& point) const {
    if (chart_.categories.empty()) return at_x(point.x);
    const double count = static_cast<double>(chart_.series.size());
    return at_x(point.x + (static_cast<double>(series) - (count - 1) / 2) * 0.6 / count);
  }

  std::string series_text(size_t index) const {
    const SvgSeries& series = chart_.series[index];
    const char* colour = kColours[index % kColours.size()];
    std::string out, line;
    for (const SvgPoint& point : series.points) {
      const double x = place_of(index, point);
      line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x, at_y(point.y));
      out += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"{}\" stroke-width=\"1.2\"/>\n",
                         x, at_y(point.low), at_y(point.high), colour);
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x,
                         at_y(point.y), colour);
    }
    if (chart_.categories.empty() && !line.empty()) {
      out += fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"1.5\" fill=\"none\"/>\n",
                         line, colour);
    }
    if (chart_.series.size() > 1) {
      out += fmt::format("<text x=\"{:.1f}\" y=\"36\" style=\"fill:{}\">{}</text>\n",
                         kLeft + kNameWidth * static_cast<double>(index), colour,
                         escaped(series.name));
    }
    return out;
  }

  const SvgChart& chart_;
  const double left_;
  Axis x_, y_;
};

}  // namespace

std::string draw(const std::vector<SvgChart>& charts) {
  double width = 0.0;
  std::string body;
  for (const SvgChart& chart : charts) {
    body += Drawing(chart, width).text();
    width += Drawing::width_of(chart);
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1}\" "
             "width=\"{0:.0f}\" height=\"{1}\">\n",
             width, kHeight) +
         std::string(kStyle) + body + "</svg>\n";
}

}  // namespace bulkhead::apps::eval
