"""Small line charts as SVG text: axes from zero, points, and the straight line they are held to."""

import dataclasses
import html

WIDTH, HEIGHT = 380, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 34, 46
_COLOURS = ("#1f6fb2", "#c2571a", "#3c8a3c")
_STYLE = """<style>
text { font: 11px sans-serif; fill: #555; }
.title { font-weight: bold; fill: #333; }
.axis { stroke: #888; fill: none; }
.grid { stroke: #ddd; }
.fit { stroke: #999; stroke-dasharray: 4 4; fill: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #aaa; } .title { fill: #ddd; } .grid { stroke: #333; }
}
</style>"""


@dataclasses.dataclass(frozen=True)
class Series:
    name: str
    points: list        # (x, y)
    fit: tuple = None   # (y at x = 0, slope): a dashed line


@dataclasses.dataclass(frozen=True)
class Chart:
    title: str
    x_label: str
    y_label: str
    series: list


def _ticks(largest, count=5):
    """Round steps from zero to at least `largest`."""
    if largest <= 0:
        return [0.0, 1.0]
    raw = largest / count
    power = 1.0
    while power * 10 <= raw:
        power *= 10
    while power > raw:
        power /= 10
    size = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    ticks = [0.0]
    while ticks[-1] < largest:
        ticks.append(ticks[-1] + size)
    return ticks


def _number(value):
    if value >= 1000 and value % 1000 == 0:
        return f"{value / 1000:g}k"
    return f"{value:.6g}"


def _chart(chart, left):
    x_ticks = _ticks(max(x for series in chart.series for x, _ in series.points))
    y_ticks = _ticks(max(y for series in chart.series for _, y in series.points))
    width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def at(x, y):
        return (_LEFT + x / x_ticks[-1] * width, _TOP + height - y / y_ticks[-1] * height)

    out = [f'<g transform="translate({left},0)">',
           f'<text class="title" x="{_LEFT}" y="18">{html.escape(chart.title)}</text>']
    for tick in y_ticks:
        x, y = at(0, tick)
        out.append(f'<path class="grid" d="M{x:.1f} {y:.1f}h{width}"/>')
        out.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">'
                   f'{_number(tick)}</text>')
    for tick in x_ticks:
        x, y = at(tick, 0)
        out.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">'
                   f'{_number(tick)}</text>')
    out.append(f'<path class="axis" d="M{_LEFT} {_TOP}v{height}h{width}"/>')
    out.append(f'<text x="{_LEFT + width / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">'
               f'{html.escape(chart.x_label)}</text>')
    out.append(f'<text transform="translate(14,{_TOP + height / 2:.1f}) rotate(-90)" '
               f'text-anchor="middle">{html.escape(chart.y_label)}</text>')
    for index, series in enumerate(chart.series):
        out += _series(series, index, at, x_ticks[-1], y_ticks[-1], len(chart.series) > 1)
    return out + ["</g>"]


def _series(series, index, at, x_last, y_last, named):
    colour = _COLOURS[index % len(_COLOURS)]
    out = []
    if series.fit is not None:
        start, slope = series.fit
        end = x_last if start + slope * x_last <= y_last else (y_last - start) / slope
        (x1, y1), (x2, y2) = at(0, max(0.0, start)), at(end, start + slope * end)
        out.append(f'<path class="fit" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')
    places = [at(x, y) for x, y in series.points]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    out.append(f'<path d="M{line}" stroke="{colour}" stroke-width="1.5" fill="none"/>')
    out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    if named:
        out.append(f'<text x="{_LEFT + 10}" y="{_TOP + 12 + 14 * index}" style="fill:{colour}">'
                   f'{html.escape(series.name)}</text>')
    return out


def draw(charts):
    """The charts side by side."""
    width = WIDTH * len(charts)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
           f'width="{width}" height="{HEIGHT}">', _STYLE]
    for index, chart in enumerate(charts):
        out += _chart(chart, index * WIDTH)
    return "\n".join([*out, "</svg>"]) + "\n"
