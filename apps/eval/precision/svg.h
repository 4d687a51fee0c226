// Small charts as SVG text: points with intervals, joined to lines or beside each other.
//
// Threads: pure functions. Invariants: the text is well-formed XML whatever names hold; it reads on
// light and on dark ground.
#pragma once

#include <string>
#include <vector>

namespace bulkhead::apps::eval {

struct SvgPoint {
  double x = 0.0, y = 0.0;
  double low = 0.0, high = 0.0;  // its interval
};

struct SvgSeries {
  std::string name;
  std::vector<SvgPoint> points;
};

struct SvgChart {
  std::string title, x_label, y_label;
  std::vector<SvgSeries> series;
  // Names of x = 0, 1, ..., whose points stand side by side; empty: x is a number, points are
  // joined.
  std::vector<std::string> categories;
  bool from_zero = true;  // y; otherwise from below the least there is
};

// The charts side by side.
std::string draw(const std::vector<SvgChart>& charts);

}  // namespace bulkhead::apps::eval
