#!/usr/bin/env python3
"""Bulkhead beside llama.cpp: same machine, same run, same model file, same requests over HTTP.

    make bench-peer                                  # all models, five rounds, over an hour
    bulkhead bench peer --rounds 1 --models smollm2     # a quick look
    bulkhead bench peer --isa avx2                      # both held to AVX2, on a newer machine

Rounds alternate between the servers. The table of medians and ratios goes to docs/benchmarks/,
one line per figure to bench/history.jsonl. On a model that speaks, 32 greedy answers are then asked
for alone and together, and those that change are counted; for Bulkhead more than none is an error.
"""

import argparse
import dataclasses
import datetime
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

import answers
import engines
import load
import machine

ROOT = machine.ROOT
PREFILL_TOKENS = 512
DECODE_PROMPT_TOKENS = 16
DECODE_TOKENS = 64
CONCURRENCY = (1, 8, 32)
LIMITS = engines.Limits(threads=2, concurrent_max=max(CONCURRENCY), context_tokens=640)

SMALL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = ROOT / "build" / "bench"


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    vocabulary: int
    # The GGUF file of llama.cpp's side, ours where we read it too, and (path, command without the
    # path) for every file that has to be made first.
    file: pathlib.Path
    made_by: list
    ours: pathlib.Path = None
    speaks: bool = False  # else its answers are noise of near-equal odds

    @property
    def our_file(self):
        return self.ours or self.file


def _gguf(name):
    return FOLDER / f"{name}.gguf"


MODELS = {
    "smollm2": Model("SmolLM2-135M-Instruct, BF16", 49152, _gguf("smollm2-bf16"),
                     [(_gguf("smollm2-bf16"), ["tools/bench/to_bf16_gguf.py", str(SMALL)])],
                     speaks=True),
    "llama-2048x16": Model("seeded random Llama, 2048 x 16, 32/8 heads of 64, ff 5632, "
                           "vocabulary 32000, BF16", 32000, _gguf("llama-2048x16"),
                           [(_gguf("llama-2048x16"), ["tools/bench/make_random_gguf.py"])]),
    "mini-K": Model("mini-K, seeded random Kimi: 1.31 billion parameters, 0.23 active, 64 heads "
                    "over a latent of 512 + 64, 64 experts of which 4, BF16 (safetensors here, the "
                    "same weights as GGUF there)", 32768, _gguf("mini-K"),
                    [(FOLDER / "mini-K", ["tools/checkpoints/make_random_checkpoint.py", "mini-K"]),
                     (_gguf("mini-K"), ["tools/bench/to_deepseek2_gguf.py",
                                        str(FOLDER / "mini-K")])],
                    ours=FOLDER / "mini-K"),
}


def figures():
    yield "prefill 512"
    for count in CONCURRENCY:
        yield f"decode {count}"


def prepare(model):
    for path, (script, *arguments) in model.made_by:
        if not path.exists():
            subprocess.run([sys.executable, str(ROOT / script), *arguments, str(path)], check=True)


def measure_once(engine, url, prompts):
    rates = {"prefill 512": load.prefill_rate(url, prompts["prefill"], engine.extra_fields)}
    for count in CONCURRENCY:
        first, second = prompts[count]
        rates[f"decode {count}"] = load.decode_rate(url, first, second, DECODE_TOKENS,
                                                    engine.extra_fields)
    return rates


def draw_prompts(source):
    prompts = {"prefill": source.prompts(3, PREFILL_TOKENS)}
    for count in CONCURRENCY:
        prompts[count] = (source.prompts(count, DECODE_PROMPT_TOKENS),
                          source.prompts(count, DECODE_PROMPT_TOKENS))
    return prompts


def compare(name, pair, rounds, log_folder):
    """{engine name: {figure: [rate per round]}} and, on a speaking model, {engine name: Changes}"""
    source = load.Load(MODELS[name].vocabulary, seed=1)
    rates = {engine.name: {figure: [] for figure in figures()} for engine in pair}
    with engines.running(pair[0], log_folder) as first, \
            engines.running(pair[1], log_folder) as second:
        urls = [first.url, second.url]
        for engine, url in zip(pair, urls):  # touches weights and pages once
            load.seconds(url, source.prompts(2, PREFILL_TOKENS), 4, engine.extra_fields)
        for number in range(rounds):
            prompts = draw_prompts(source)
            # Who goes first alternates, so that neither always meets a warmer machine.
            order = list(zip(pair, urls))
            for engine, url in order if number % 2 == 0 else reversed(order):
                once = measure_once(engine, url, prompts)
                for figure, rate in once.items():
                    rates[engine.name][figure].append(rate)
                print(f"  {name} round {number + 1} {engine.name}: " +
                      ", ".join(f"{figure} {rate:.1f}" for figure, rate in once.items()),
                      flush=True)
        changes = {engine.name: answers.count_changes(url, engine.extra_fields)
                   for engine, url in zip(pair, urls) if MODELS[name].speaks}
    return rates, changes


def table(name, pair, rates, changes):
    ours, theirs = (engine.name for engine in pair)
    rows = [f"### {MODELS[name].title}", "",
            f"| tokens per second | {ours} | {theirs} | ratio |", "|---|---|---|---|"]
    for figure in figures():
        mine, other = rates[ours][figure], rates[theirs][figure]
        ratio = statistics.median(mine) / statistics.median(other)
        rows.append(f"| {label(figure)} | {spread(mine)} | {spread(other)} | {ratio:.2f}x |")
    rows += [""]
    if changes:
        rows += changes_table(ours, theirs, changes)
    rows += [f"    {shlex.join(short(engine.command))}" for engine in pair]
    return "\n".join(rows) + "\n"


def changes_table(ours, theirs, changes):
    mine, other = changes[ours], changes[theirs]
    return [f"| of {mine.asked} greedy answers of {answers.TOKENS} tokens, other than alone "
            f"| {ours} | {theirs} |", "|---|---|---|",
            f"| asked alone once more | {mine.alone_again} | {other.alone_again} |",
            f"| asked all at once | {mine.together} | {other.together} |", ""]


def label(figure):
    kind, count = figure.split()
    if kind == "prefill":
        return f"prefill, {count} tokens"
    return f"decode, {count} request{'s' if count != '1' else ''}"


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def short(command):
    return [part.replace(f"{ROOT}/", "") for part in command]


def document(sections, rounds, started_load, peer_version, isa):
    when = datetime.date.today().isoformat()
    held = f", both held to {isa.upper()}" if isa else ""
    build = f"built for {isa.upper()}" if isa else "built with -march=native"
    head = [
        f"# Bulkhead beside llama.cpp: {machine.kind()} machine{held}", "",
        f"Measured {when} at commit {machine.commit()} on {machine.describe()}; load average at "
        f"the start {started_load:.2f}. llama.cpp: {peer_version}, {build}.", "",
        f"Medians of {rounds} alternating rounds (lowest to highest in brackets), "
        f"{LIMITS.threads} threads each, the same weights, the same requests to "
        "/v1/completions over loopback, greedy, prompts of random token ids that never repeat.",
        f"Prefill: {PREFILL_TOKENS} tokens to the first token, one request. Decode: "
        f"{DECODE_TOKENS} tokens after a prompt of {DECODE_PROMPT_TOKENS}, the time to the first "
        "token taken off.", "",
        f"Command: `{shlex.join(['bench/peer_llama.py', *sys.argv[1:]])}`", ""]
    return "\n".join(head) + "\n" + "\n".join(sections)


def append_history(name, rates, path, isa):
    with open(path, "a", encoding="utf-8") as history:
        for engine, by_figure in rates.items():
            for figure, values in by_figure.items():
                history.write(json.dumps({
                    "bench": "peer_llama", "date": datetime.date.today().isoformat(),
                    "commit": machine.commit(), "machine": machine.describe(), "model": name,
                    "isa": isa or "native", "engine": engine, "figure": figure, "unit": "tokens/s",
                    "median": round(statistics.median(values), 2),
                    "values": [round(value, 2) for value in values]}) + "\n")


def peer_version(binary):
    done = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return next((line.strip() for line in lines if "version" in line), "version unknown")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bulkhead", type=pathlib.Path,
                        default=ROOT / "build/release/bin/bulkhead")
    parser.add_argument("--llama-server", type=pathlib.Path,
                        help="a llama-server built for this machine; default: build one")
    parser.add_argument("--isa", choices=("avx2",),
                        help="hold both sides to an instruction set below this machine's own")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="default: docs/benchmarks/, by machine")
    parser.add_argument("--no-history", action="store_true", help="leave bench/history.jsonl alone")
    parser.add_argument("--llama-on-both-sides", action="store_true",
                        help="check the method: the ratios must come out near 1")
    return parser.parse_args()


def main():
    options = parse_arguments()
    llama_server = options.llama_server
    if llama_server is None:
        held = [options.isa] if options.isa else []
        subprocess.run([str(ROOT / "bench/build_llama.sh"), *held], check=True)
        llama_server = ROOT / "build" / "-".join(["peer", *held]) / "bin/llama-server"

    started_load = machine.load_average()
    if started_load > 0.5:
        print(f"warning: the load average is {started_load:.2f}; something else is running",
              file=sys.stderr)
    sections, ours_changed = [], 0
    for name in options.models:
        model = MODELS[name]
        prepare(model)
        ours = engines.bulkhead(options.bulkhead, model.our_file, LIMITS,
                                ("--isa", options.isa) if options.isa else ())
        if options.llama_on_both_sides:
            ours = engines.Engine("llama.cpp again", engines.llama(
                llama_server, model.file, LIMITS).command, {"cache_prompt": False})
        pair = (ours, engines.llama(llama_server, model.file, LIMITS))
        rates, changes = compare(name, pair, options.rounds, ROOT / "build/bench/logs" / name)
        sections.append(table(name, pair, rates, changes))
        if not options.llama_on_both_sides and model.speaks:
            ours_changed += changes[ours.name].alone_again + changes[ours.name].together
        if not options.no_history:
            append_history(name, rates, ROOT / "bench/history.jsonl", options.isa)

    text = document(sections, options.rounds, started_load, peer_version(llama_server),
                    options.isa)
    held = f"-held-to-{options.isa}" if options.isa else ""
    out = options.out or ROOT / "docs/benchmarks" / f"llama-cpp-{machine.kind()}{held}.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    print(text)
    print(f"written to {out}")
    if ours_changed:
        sys.exit(f"error: {ours_changed} of Bulkhead's own answers changed; none may")


if __name__ == "__main__":
    engines.end_servers_when_ended()
    try:
        main()
    except (engines.EngineFailed, load.RequestFailed) as failure:
        sys.exit(f"error: {failure}")
