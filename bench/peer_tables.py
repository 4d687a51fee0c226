"""What a comparison prints: rates, ratios and memory of any number of engines beside Bulkhead."""

import dataclasses
import shlex
import statistics

import machine


@dataclasses.dataclass
class Measured:
    """One engine on one model."""
    name: str
    command: list
    equal_bytes: bool  # its weights take as many bytes as Bulkhead's
    rates: dict        # {figure: [tokens per second of each round]}
    weight_bytes: int = 0
    peak_bytes: int = 0     # resident at most, from its start to the last round
    private_bytes: int = 0  # of what is resident after the last round, what no file backs


@dataclasses.dataclass(frozen=True)
class Ratio:
    median: float
    low: float   # 10th and 90th percentile of the rounds
    high: float

    def __str__(self):
        return f"{self.median:.2f}x [{self.low:.2f}..{self.high:.2f}]"


def percentile(values, share):
    """Between the two nearest values, in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def ratio(mine, other):
    """Of rounds that were measured in turn; a peer with fewer rounds has the first ones."""
    ratios = [one / two for one, two in zip(mine, other)]
    return Ratio(statistics.median(ratios), percentile(ratios, 0.1), percentile(ratios, 0.9))


def best_peer(peers, figure):
    """The fastest at equal bytes, or None."""
    equal = [peer for peer in peers if peer.equal_bytes]
    return max(equal, key=lambda peer: statistics.median(peer.rates[figure]), default=None)


def label(figure):
    kind, count = figure.split()
    if kind == "prefill":
        return f"prefill, {count} tokens"
    return f"decode, {count} request{'s' if count != '1' else ''}"


def spread(values):
    text = f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
    return text if len(values) > 1 else f"{values[0]:.1f} (one round)"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def head(cells):
    return [row(cells), "|" + "---|" * len(cells)]


def mebibytes(count):
    return f"{count / 2**20:.0f} MiB"


def short(command):
    return shlex.join(part.replace(f"{machine.ROOT}/", "") for part in command)


def verdict(ours, peers, figure, needed):
    """Two cells: what is needed over the best peer at equal bytes, and whether it is there."""
    best = best_peer(peers, figure)
    if best is None or figure not in needed:
        return ["-", "reported"]
    reached = ratio(ours.rates[figure], best.rates[figure]).median >= needed[figure]
    return [f">= {needed[figure]:.1f}x of {best.name}", "holds" if reached else "**falls short**"]


def section(title, measured, needed):
    """The tables of one model; Bulkhead comes first in `measured`."""
    ours, *peers = measured
    rows = [f"### {title}", "",
            *head(["tokens per second", *(engine.name for engine in measured)])]
    for figure in ours.rates:
        rows.append(row([label(figure), *(spread(one.rates[figure]) for one in measured)]))
    for name, field in (("weights", "weight_bytes"), ("memory at its peak", "peak_bytes"),
                        ("of it private, after the last round", "private_bytes")):
        rows.append(row([name, *(mebibytes(getattr(engine, field)) for engine in measured)]))
    rows += ["", *head([f"{ours.name} is so many times as fast as",
                        *(peer.name for peer in peers),
                        *(["needed", "verdict"] if needed else [])])]
    for figure in ours.rates:
        ratios = [str(ratio(ours.rates[figure], peer.rates[figure])) for peer in peers]
        rows.append(row([label(figure), *ratios,
                         *(verdict(ours, peers, figure, needed) if needed else [])]))
    return "\n".join([*rows, "", *(f"    {short(engine.command)}" for engine in measured)]) + "\n"


def answers_section(title, changes, tokens):
    """`changes` is {engine name: answers.Changes}."""
    asked = next(iter(changes.values())).asked
    again = ["-" if one.alone_again is None else str(one.alone_again) for one in changes.values()]
    rows = [f"### Answers that change under load: {title}", "",
            *head([f"of {asked} greedy answers of {tokens} tokens, other than alone", *changes]),
            row(["asked alone once more", *again]),
            row(["asked all at once", *(str(one.together) for one in changes.values())])]
    return "\n".join(rows) + "\n"
