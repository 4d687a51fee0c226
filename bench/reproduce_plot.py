#!/usr/bin/env python3
"""Draws what `bulkhead bench reproduce --json FILE` measured: throughput over requests at once.

    bench/reproduce_plot.py run.json                  # docs/benchmarks/reproduce-caches.svg, ...
    bench/reproduce_plot.py run.json --out DIR --name reproduce-zen4

One picture for each kind of format that has curves: caches (BF16 and FP8) and weights (FP8 and
INT4).
"""

import argparse
import json
import pathlib
import sys

import svg_plot

OUT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def charts_of(run):
    """{picture: [Chart]}, both in the order of the run."""
    frames = {}
    for curve in run["curves"]:
        points = [(point["requests"], point["tokens_per_s"]) for point in curve["points"]]
        series = svg_plot.Series(curve["name"], points)
        frames.setdefault(curve["figure"], {}).setdefault(curve["chart"], []).append(series)
    return {figure: [svg_plot.Chart(title, "requests at once", "tokens per second", series)
                     for title, series in charts.items()]
            for figure, charts in frames.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path, help="what --json wrote")
    parser.add_argument("--out", type=pathlib.Path, default=OUT, help="folder (docs/benchmarks)")
    parser.add_argument("--name", default="reproduce", help="how the pictures' names begin")
    options = parser.parse_args()
    figures = charts_of(json.loads(options.run.read_text(encoding="utf-8")))
    if not figures:
        sys.exit("error: this run has no curves; measure caches or weights")
    for figure, charts in figures.items():
        path = options.out / f"{options.name}-{figure}.svg"
        path.write_text(svg_plot.draw(charts), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
