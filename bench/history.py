"""bench/history.jsonl: one line for each figure of each run. `bulkhead bench history` reads
them; its own writer (apps/bench/history/) has the same fields."""

import datetime
import json
import statistics

import machine

FILE = machine.ROOT / "bench" / "history.jsonl"


def entry(bench, figure, unit, values, **more):
    """`more`: model, isa, engine, settings: what has to be equal for a comparison."""
    unknown = set(more) - {"model", "isa", "engine", "settings"}
    assert not unknown, f"no field of the history: {unknown}"
    rounded = [float(f"{value:.6g}") for value in values]
    return {"bench": bench, "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "commit": machine.commit(), "machine": machine.describe(), **more, "figure": figure,
            "unit": unit, "median": statistics.median(rounded), "values": rounded}


def append(path, entries):
    with open(path, "a", encoding="utf-8") as file:
        for one in entries:
            file.write(json.dumps(one) + "\n")
