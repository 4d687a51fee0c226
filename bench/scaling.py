#!/usr/bin/env python3
"""Whether the server's cost grows linearly, and what its HTTP layer costs.

    .venv/bin/python bench/scaling.py                # everything, about 40 minutes on two cores
    .venv/bin/python bench/scaling.py --quick        # the same at small sizes, some two minutes

One table a question (requests at once, context, prefix hits, indexed pages, HTTP) goes to
docs/benchmarks/scaling.md, a plot beside it; --history FILE adds the figures of a full run to FILE,
as `make bench-scaling` does. Load comes from `bulkhead bench serve`.
"""

import argparse
import dataclasses
import datetime
import pathlib
import shlex
import statistics
import subprocess
import sys

import engines
import history
import machine
import probe
import svg_plot

ROOT = machine.ROOT
SMALL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
# SmolLM2 ends at 8192 tokens. Beyond, random weights of its shape cost the same per token.
LONG = ROOT / "build" / "bench" / "smollm2-shape-32k.gguf"
LONG_SHAPE = ["--hidden", "576", "--layers", "30", "--heads", "9", "--kv-heads", "3", "--head-dim",
              "64", "--feed-forward", "1536", "--vocabulary", "49152", "--context", "32768"]
THREADS = 2
PARTS = ["requests", "context", "prefix", "pages", "http"]


@dataclasses.dataclass(frozen=True)
class Sizes:
    concurrency: tuple
    tokens: int          # of an answer while requests at once are counted
    contexts: tuple
    prefix_prompt: int   # of which 90 % are shared
    prefix_requests: int
    http_requests: int
    streams: int
    stream_tokens: int


FULL = Sizes((1, 2, 4, 8, 16, 32, 64, 128), 64, (1024, 2048, 4096, 8192, 16384, 32768), 2000, 20,
             100, 256, 32)
QUICK = Sizes((1, 2, 4, 8), 16, (1024, 2048), 500, 4, 20, 256, 4)


def fit(points):
    """(y at 0, slope) of the least-squares line of relative errors, so that small x count too."""
    weights = [1 / (y * y) for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points))
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points)) / spread
    return mean_y - slope * mean_x, slope


def above_line(point, line):
    """How far a point lies above the line, as a share of it."""
    return point[1] / (line[0] + line[1] * point[0]) - 1


def server(binary, model, *flags):
    command = [str(binary), "serve", "--model", str(model), "--threads", str(THREADS), *flags]
    return engines.running(engines.Engine("scaling", command, {}), ROOT / "build/bench/logs")


# --- requests at once ---------------------------------------------------------------------------


def measure_concurrency(binary, sizes):
    """[(requests at once, milliseconds of a step, tokens per second)]"""
    rows = []
    flags = ("--max-running-requests", str(max(sizes.concurrency)))
    with server(binary, SMALL, *flags) as running:
        for count in sizes.concurrency:
            run = probe.bench_serve(binary, running.url, concurrency=count,
                                    requests=max(count, 4), input_tokens=32,
                                    output_tokens=sizes.tokens, seed=count)
            step = run["itl_ms"]["p50"]
            rows.append((count, step, 1000 * count / step, run["output_tokens_per_s"]))
            progress(f"{count} at once: step {step:.2f} ms")
    return rows


def concurrency_section(rows):
    points = [(count, step) for count, step, _, _ in rows]
    line = fit(points)
    out = ["## Requests at once", "",
           f"SmolLM2-135M, prompts of 32 random tokens, all in decode: a step takes "
           f"{line[0]:.2f} ms + {line[1]:.3f} ms for each request (dashed).", "",
           "| requests | step, ms (median ITL) | decode, tok/s | whole run, tok/s | off the line | "
           "cost against half as many |", "|---|---|---|---|---|---|"]
    for index, (count, step, decode, whole) in enumerate(rows):
        growth = f"{step / rows[index - 1][1]:.2f}x" if index else ""
        out.append(f"| {count} | {step:.2f} | {decode:.0f} | {whole:.0f} | "
                   f"{above_line((count, step), line):+.0%} | {growth} |")
    chart = svg_plot.Chart("Decode step", "requests at once", "ms",
                           [svg_plot.Series("", points, line)])
    return out + ["", "Linear means: never more than 2x for twice the requests.", ""], chart


# --- context ------------------------------------------------------------------------------------


def prepare_long_model():
    if not LONG.is_file():
        subprocess.run([sys.executable, str(ROOT / "tools/bench/make_random_gguf.py"), str(LONG),
                        *LONG_SHAPE], check=True)
    return LONG


def measure_contexts(binary, sizes):
    """[(tokens, seconds to the first token, milliseconds between tokens)]"""
    answer = 16
    rows = []
    largest = max(sizes.contexts)
    flags = ("--context-length", str(largest), "--max-running-requests", "1", "--kv-cache-memory",
             f"{largest * 24 // 1024 + 64}M")  # 22.5 KiB a token
    with server(binary, prepare_long_model(), *flags) as running:
        for tokens in sizes.contexts:
            run = probe.bench_serve(binary, running.url, concurrency=1, warmup=0,
                                    requests=2 if tokens <= 8192 else 1,  # minutes each
                                    input_tokens=tokens - answer, output_tokens=answer, seed=tokens)
            rows.append((tokens, run["ttft_ms"]["p50"] / 1000, run["itl_ms"]["p50"]))
            progress(f"context {tokens}: first token {rows[-1][1]:.2f} s")
    return rows


def context_section(rows):
    decode = [(tokens, gap) for tokens, _, gap in rows]
    prefill = [(tokens, 1e6 * first / tokens) for tokens, first, _ in rows]
    decode_line, prefill_line = fit(decode), fit(prefill)
    out = ["## Context", "",
           "Random weights in the shape of SmolLM2-135M, one request. Attention reads every "
           "earlier token, so the cost of *one* token grows with its place:", "",
           f"- decode: {decode_line[0]:.2f} ms + {1000 * decode_line[1]:.3f} ms for each 1,000 "
           "tokens before it;",
           f"- prefill: {prefill_line[0]:.0f} us a token + {1000 * prefill_line[1]:.1f} us for "
           "each 1,000 tokens of the prompt.", "",
           "| context | first token, s | prefill, tok/s | us a prompt token | off the line | "
           "decode, ms a token | off the line |", "|---|---|---|---|---|---|---|"]
    for (tokens, first, gap), each in zip(rows, prefill):
        out.append(f"| {tokens} | {first:.2f} | {tokens / first:.0f} | {each[1]:.0f} | "
                   f"{above_line(each, prefill_line):+.0%} | {gap:.2f} | "
                   f"{above_line((tokens, gap), decode_line):+.0%} |")
    charts = [svg_plot.Chart("Decode by context", "tokens before", "ms a token",
                             [svg_plot.Series("", decode, decode_line)]),
              svg_plot.Chart("Prefill by prompt", "prompt tokens", "us a token",
                             [svg_plot.Series("", prefill, prefill_line)])]
    return out + [""], charts


# --- prefix hits --------------------------------------------------------------------------------


def measure_prefix(binary, sizes):
    shared = sizes.prefix_prompt * 9 // 10
    common = {"concurrency": 1, "requests": sizes.prefix_requests, "prefix_tokens": shared,
              "input_tokens": sizes.prefix_prompt - shared, "output_tokens": 2}
    with server(binary, SMALL) as running:
        misses = probe.bench_serve(binary, running.url, seed=11,
                                   prefix_groups=sizes.prefix_requests, **common)
        hits = probe.bench_serve(binary, running.url, seed=12, prefix_groups=1, **common)
    # The first of a group computes what the others find.
    found = [record for record in hits["requests"][1:]]
    cached = statistics.median(record["cached_tokens"] for record in found)
    return {"prompt": sizes.prefix_prompt, "cached": cached, "requests": sizes.prefix_requests,
            "miss_ms": misses["ttft_ms"]["p50"],
            "hit_ms": 1000 * statistics.median(record["ttft_s"] for record in found)}


def prefix_section(result):
    ratio = result["miss_ms"] / result["hit_ms"]
    share = result["cached"] / result["prompt"]
    return ["## Prefix hits", "",
            f"SmolLM2-135M, {result['requests']} prompts of {result['prompt']} tokens one after "
            "the other; 90 % of the prompt is shared with the request before, or none of it.", "",
            "| | cached tokens (usage) | first token, ms (median) |", "|---|---|---|",
            f"| miss | 0 | {result['miss_ms']:.1f} |",
            f"| hit | {result['cached']:.0f} ({share:.0%}) | {result['hit_ms']:.1f} |", "",
            f"A hit reaches its first token **{ratio:.1f}x** sooner.", ""]


# --- indexed pages ------------------------------------------------------------------------------


def measure_pages(binary):
    """[(pages in the prefix index, nanoseconds a page to find, to put in, to give up)]"""
    program = binary.parent / "bench_prefix_index"
    if not program.is_file():
        raise probe.BenchFailed(f"{program} is missing: cmake --build {binary.parent.parent} "
                                "--target bench_prefix_index")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    rows = [tuple(map(int, line.split(","))) for line in done.stdout.splitlines()[1:]]
    progress(f"{rows[-1][0]} pages: {rows[-1][1]} ns to find one")
    return rows


def pages_section(rows):
    out = ["## Pages in the prefix index", "",
           "Prompts of up to 16 pages of 64 tokens, in nanoseconds a page (median of 200). A page "
           "costs one SHA-256 over its 256 bytes of token ids and what comes before, however many "
           "pages there are; beyond the caches' size, memory latency is added.", "",
           "| pages | find | put in | give up |", "|---|---|---|---|"]
    out += [f"| {pages:,} | {find} | {put} | {give} |" for pages, find, put, give in rows]
    return out + [""]


# --- HTTP ---------------------------------------------------------------------------------------


def measure_http(binary, sizes):
    result = {}
    flags = ("--max-running-requests", "64", "--max-queued-requests", "512")
    with server(binary, SMALL, *flags) as running:
        before = probe.metrics(running.url)
        run = probe.bench_serve(binary, running.url, concurrency=1, requests=sizes.http_requests,
                                warmup=0, input_tokens=16, output_tokens=2, seed=21)
        after = probe.metrics(running.url)
        inside = sum(probe.mean_seconds(before, after, f"vllm:request_{name}_time_seconds")
                     for name in ("queue", "prefill"))
        result["ttft_ms"], result["engine_ms"] = run["ttft_ms"]["mean"], 1000 * inside
        thread = probe.io_thread(running.pid)
        cpu = probe.cpu_seconds(running.pid, thread) if thread else 0.0
        run = probe.bench_serve(binary, running.url, concurrency=sizes.streams, warmup=0,
                                requests=sizes.streams, input_tokens=16, seed=22,
                                output_tokens=sizes.stream_tokens)
        result["tokens"] = run["output_tokens"]
        result["streams"], result["failed"] = run["open_max"], run["failed"]
        spent = probe.cpu_seconds(running.pid, thread) - cpu if thread else None
        result["cpu_us"] = None if spent is None else 1e6 * spent / run["output_tokens"]
    return result


def http_section(result):
    added = result["ttft_ms"] - result["engine_ms"]
    cpu = ("not found on this system" if result["cpu_us"] is None
           else f"{result['cpu_us']:.1f} us")
    return ["## HTTP", "",
            "Added to the first token: what the client measures (connecting, sending, parsing, the "
            "way back) less the queue and prefill time that the engine reports for the same "
            "requests. CPU: of the I/O thread, tokenising of prompts and all connections included.",
            "", "| | measured | bound |", "|---|---|---|",
            f"| first token, client | {result['ttft_ms']:.2f} ms | |",
            f"| of it queue and prefill | {result['engine_ms']:.2f} ms | |",
            f"| **added by HTTP** | **{added:.2f} ms** | 1 ms |",
            f"| **I/O thread, CPU a streamed token** | **{cpu}** | 50 us |",
            f"| streams at once | {result['streams']}, {result['tokens']} tokens, "
            f"{result['failed']} errors | 256, none |", ""]


# --- the history --------------------------------------------------------------------------------


def figures(measured):
    """History entries of what was measured, by part."""
    def entry(model, figure, unit, value):
        return history.entry("scaling", figure, unit, [value], model=model, engine="Bulkhead",
                             isa="native", settings=f"{THREADS} threads")

    for count, step, _, whole in measured.get("requests", []):
        yield entry("smollm2", f"step of {count} requests", "ms", step)
        yield entry("smollm2", f"whole run of {count} requests", "tokens/s", whole)
    for tokens, first, gap in measured.get("context", []):
        yield entry("smollm2-shape-32k", f"first token of {tokens}", "s", first)
        yield entry("smollm2-shape-32k", f"decode at {tokens}", "ms", gap)
    if "prefix" in measured:
        yield entry("smollm2", "first token, prefix hit", "ms", measured["prefix"]["hit_ms"])
    for pages, find, put, give in measured.get("pages", []):
        for what, value in (("find", find), ("put in", put), ("give up", give)):
            yield entry("", f"{what} a page of {pages}", "ns", value)
    if "http" in measured:
        added = measured["http"]["ttft_ms"] - measured["http"]["engine_ms"]
        yield entry("smollm2", "added by HTTP", "ms", added)


# --- the page -----------------------------------------------------------------------------------


def progress(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def head(started_load, quick):
    lines = ["# How cost grows", "",
             f"Measured {datetime.date.today().isoformat()} at commit {machine.commit()} on "
             f"{machine.describe()}, {THREADS} compute threads; load average at the start "
             f"{started_load:.2f}.", "",
             f"Command: `{shlex.join(['bench/scaling.py', *sys.argv[1:]])}`", ""]
    if quick:
        lines += ["**A quick run: small sizes, few samples; not figures to keep.**", ""]
    return lines


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bulkhead", type=pathlib.Path,
                        default=ROOT / "build/release/bin/bulkhead")
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "docs" / "benchmarks" / "scaling.md")
    parser.add_argument("--quick", action="store_true", help="small sizes: is the tool in order?")
    parser.add_argument("--history", type=pathlib.Path, metavar="FILE",
                        help="add the figures to this file, unless the run is a quick one")
    parser.add_argument("--only", nargs="+", default=PARTS, choices=PARTS)
    return parser.parse_args()


def main():
    options = parse_arguments()
    sizes = QUICK if options.quick else FULL
    started_load = machine.load_average()
    sections, charts, measured = [], [], {}
    if "requests" in options.only:
        measured["requests"] = measure_concurrency(options.bulkhead, sizes)
        section, chart = concurrency_section(measured["requests"])
        sections.append(section)
        charts.append(chart)
    if "context" in options.only:
        measured["context"] = measure_contexts(options.bulkhead, sizes)
        section, more = context_section(measured["context"])
        sections.append(section)
        charts += more
    if "prefix" in options.only:
        measured["prefix"] = measure_prefix(options.bulkhead, sizes)
        sections.append(prefix_section(measured["prefix"]))
    if "pages" in options.only:
        measured["pages"] = measure_pages(options.bulkhead)
        sections.append(pages_section(measured["pages"]))
    if "http" in options.only:
        measured["http"] = measure_http(options.bulkhead, sizes)
        sections.append(http_section(measured["http"]))

    lines = head(started_load, options.quick)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if charts:
        plot = options.out.with_suffix(".svg")
        plot.write_text(svg_plot.draw(charts), encoding="utf-8")
        lines += [f"![step time by requests, cost of a token by context]({plot.name})", ""]
    text = "\n".join(lines + [line for section in sections for line in section])
    options.out.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(text)
    print(f"written to {options.out}")
    if options.history and not options.quick:
        history.append(options.history, figures(measured))


if __name__ == "__main__":
    engines.end_servers_when_ended()
    try:
        main()
    except (engines.EngineFailed, probe.BenchFailed) as failure:
        sys.exit(f"error: {failure}")
