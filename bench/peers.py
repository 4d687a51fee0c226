#!/usr/bin/env python3
"""Bulkhead beside other engines: same machine, same run, same weights, same requests over HTTP.

    make bench-peer                             # llama.cpp, BF16, all models, over an hour
    bulkhead bench peer --weights int4 --engines llama,openvino,openvino-bf16,transformers
    bulkhead bench peer --rounds 1 --models smollm2     # a quick look
    bulkhead bench peer --isa avx2                      # all held to AVX2, on a newer machine

Rounds alternate between the servers. The tables of medians, ratios and memory go to
docs/benchmarks/, one line per figure to bench/history.jsonl. Of a model that speaks, 32 greedy
answers are then asked for alone and together, and those that change are counted; for Bulkhead more
than none is an error.
"""

import argparse
import contextlib
import dataclasses
import datetime
import pathlib
import shlex
import subprocess
import sys

import answers
import engines
import history
import load
import machine
import peer_models
import peer_tables

ROOT = machine.ROOT
PEERS = ("llama", "openvino", "openvino-bf16", "transformers")
LOGS = peer_models.FOLDER / "logs"
# Lines of bench/history.jsonl go on under the name they began with.
HISTORY_NAME = "peer_llama"


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is measured."""
    prefill_tokens: int = 512
    prefill_prompts: int = 3
    decode_prompt_tokens: int = 16
    decode_tokens: int = 64
    concurrency: tuple = (1, 8, 32)
    answer_prompts: int = 32
    answer_tokens: int = answers.TOKENS

    def limits(self):
        return engines.Limits(threads=2, concurrent_max=max(self.concurrency), context_tokens=640)

    def figures(self):
        return [f"prefill {self.prefill_tokens}",
                *(f"decode {count}" for count in self.concurrency)]


QUICK = Size(prefill_tokens=64, prefill_prompts=1, decode_tokens=8, concurrency=(1, 4),
             answer_prompts=4,
             answer_tokens=8)


def draw_prompts(source, size):
    prompts = {"prefill": source.prompts(size.prefill_prompts, size.prefill_tokens)}
    for count in size.concurrency:
        prompts[count] = (source.prompts(count, size.decode_prompt_tokens),
                          source.prompts(count, size.decode_prompt_tokens))
    return prompts


def measure_once(engine, url, prompts, size):
    rates = {f"prefill {size.prefill_tokens}":
             load.prefill_rate(url, prompts["prefill"], engine.extra_fields)}
    for count in size.concurrency:
        first, second = prompts[count]
        rates[f"decode {count}"] = load.decode_rate(url, first, second, size.decode_tokens,
                                                    engine.extra_fields)
    return rates


def turns(sides, number):
    """Who is measured in a round, in what order: each goes first in turn, so that none always meets
    a warmer machine."""
    start = number % len(sides)
    return [engine for engine in sides[start:] + sides[:start]
            if engine.rounds_max is None or number < engine.rounds_max]


def compare(name, sides, rounds, size):
    """[peer_tables.Measured of each side]"""
    source = load.Load(peer_models.MODELS[name].vocabulary, seed=1)
    rates = {engine.name: {figure: [] for figure in size.figures()} for engine in sides}
    with contextlib.ExitStack() as servers:
        running = {engine.name: servers.enter_context(engines.running(engine, LOGS / name))
                   for engine in sides}
        for engine in sides:  # touches weights and pages once
            load.seconds(running[engine.name].url, source.prompts(2, size.prefill_tokens), 4,
                         engine.extra_fields)
        for number in range(rounds):
            prompts = draw_prompts(source, size)
            for engine in turns(sides, number):
                once = measure_once(engine, running[engine.name].url, prompts, size)
                for figure, rate in once.items():
                    rates[engine.name][figure].append(rate)
                print(f"  {name} round {number + 1} {engine.name}: " +
                      ", ".join(f"{figure} {rate:.1f}" for figure, rate in once.items()),
                      flush=True)
        return [peer_tables.Measured(
            engine.name, engine.command, engine.equal_bytes, rates[engine.name],
            engines.weight_bytes(engine, running[engine.name].log),
            *engines.memory(running[engine.name].pid)) for engine in sides]


def count_changes(name, sides, size):
    """{engine name: answers.Changes}, one server at a time; the first one has the tokenizer."""
    asked, changes = None, {}
    for engine in sides:
        with engines.running(engine, LOGS / "answers") as server:
            asked = asked or answers.token_prompts(server.url)[:size.answer_prompts]
            changes[engine.name] = answers.count_changes(
                server.url, asked, size.answer_tokens, engine.extra_fields,
                twice=engine.rounds_max is None)
        print(f"  {name} answers of {engine.name}: {changes[engine.name]}", flush=True)
    return changes


class Sides:
    """Makes the engines of a comparison, Bulkhead first, with the files that they read."""

    def __init__(self, options, limits):
        self._options, self._limits = options, limits
        self._names = ["llama"] if options.llama_on_both_sides else ["bulkhead", *options.engines]
        self._llama_server = options.llama_server
        if "llama" in self._names and self._llama_server is None:
            held = [options.isa] if options.isa else []
            subprocess.run([str(ROOT / "bench/build_llama.sh"), *held], check=True)
            self._llama_server = ROOT / "build" / "-".join(["peer", *held]) / "bin/llama-server"
        self._mask = None
        if set(self._names) - {"bulkhead", "llama"}:
            if options.isa:
                self._mask = engines.cpuid_mask(options.bulkhead)
            subprocess.run([str(ROOT / "tools/setup/venv.sh"), "peers"], check=True)

    def of(self, name):
        model, weights = peer_models.MODELS[name], self._options.weights
        names = [engine for engine in self._names if engine in model.engines(weights)]
        for engine in names:
            peer_models.prepare(model.steps[engine, weights])
        sides = [self._engine(engine, model) for engine in names]
        if self._options.llama_on_both_sides:
            sides.insert(0, dataclasses.replace(sides[0], name="llama.cpp again"))
        return sides

    def _engine(self, engine, model):
        options, limits = self._options, self._limits
        file = model.file(engine, options.weights)
        if engine == "bulkhead":
            more = engines.bulkhead_options(options.weights, limits, model.cache_token_bytes)
            return engines.bulkhead(options.bulkhead, file, limits,
                                    [*more, *(("--isa", options.isa) if options.isa else ())])
        if engine == "llama":
            return engines.llama(self._llama_server, file, limits)
        if engine.startswith("openvino"):
            precision = "bf16" if engine.endswith("bf16") else "f32"
            return engines.openvino(peer_models.PEERS_PYTHON, file, limits, precision, self._mask)
        return engines.transformers(peer_models.PEERS_PYTHON, file, limits,
                                    options.weights == "bf16", self._mask)

    def versions(self):
        found = []
        if self._llama_server is not None:
            build = f"built for {self._options.isa.upper()}" if self._options.isa else \
                "built with -march=native"
            found.append(f"llama.cpp: {llama_version(self._llama_server)}, {build}")
        packages = {"openvino": ["openvino-genai", "nncf"],
                    "transformers": ["transformers", "torch"]}
        for engine, names in packages.items():
            if any(name.startswith(engine) for name in self._names):
                seen = f", which sees {seen_by(engine, self._mask)}" if self._mask else ""
                found.append(f"{engine}: {package_versions(names)}{seen}")
        return found


def llama_version(binary):
    done = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return next((line.strip() for line in lines if "version" in line), "version unknown")


def package_versions(names):
    code = ("import importlib.metadata, sys\n"
            "print(', '.join(f'{n} {importlib.metadata.version(n)}' for n in sys.argv[1:]))")
    return said_by_peers(code, names)


# What an engine itself says of the processor that it chooses kernels for.
SEEN = {"openvino": "import openvino\n"
                    "print(*openvino.Core().get_property('CPU', 'OPTIMIZATION_CAPABILITIES'))",
        "transformers": "import torch\nprint(torch.backends.cpu.get_cpu_capability())"}


def seen_by(engine, mask):
    return said_by_peers(SEEN[engine], mask=mask)


def said_by_peers(code, words=(), mask=None):
    done = subprocess.run(engines.masked([str(peer_models.PEERS_PYTHON), "-c", code, *words], mask),
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


ABOUT_WEIGHTS = {
    "bf16": "All engines have the same BF16 weights.",
    "int4": "All have the same matrices in four bits with a scale of 16 bits for each 32, head and "
            "embedding table too: Bulkhead `int4,head=int4,embedding=int4` with activations in "
            "bytes, llama.cpp Q4_0, OpenVINO INT4 symmetric. What transformers has is not "
            "quantised: it is the floor.",
}


def document(sections, options, size, started_load, versions):
    held = f", held to {options.isa.upper()}" if options.isa else ""
    return "\n".join([
        f"# Bulkhead beside other engines, {options.weights.upper()} weights: {machine.kind()} "
        f"machine{held}", "",
        f"Measured {datetime.date.today().isoformat()} at commit {machine.commit()} on "
        f"{machine.describe()}; load average at the start {started_load:.2f}. "
        f"{'; '.join(versions)}.", "",
        ABOUT_WEIGHTS[options.weights] + " The cache holds 16 bits a value in each.", "",
        f"Medians of {options.rounds} rounds in turn (lowest to highest in brackets; of a ratio, "
        f"10th to 90th percentile), {size.limits().threads} threads each, the same requests to "
        "/v1/completions over loopback, greedy, prompts of random token ids that never repeat.",
        f"Prefill: {size.prefill_tokens} tokens to the first token, one request. Decode: "
        f"{size.decode_tokens} tokens after a prompt of {size.decode_prompt_tokens}, the time to "
        "the first token taken off. Memory: VmHWM and RssAnon of the server's process.", "",
        # Relative paths: where somebody's checkout lies is nobody's business.
        f"Command: `{shlex.join(['bench/peers.py', *sys.argv[1:]]).replace(f'{ROOT}/', '')}`", "",
        "\n".join(sections)])


def append_history(name, measured, options, path):
    model = name if options.weights == "bf16" else f"{name} {options.weights}"
    history.append(path, (
        history.entry(HISTORY_NAME, figure, "tokens/s", values, model=model,
                      isa=options.isa or "native", engine=engine.name)
        for engine in measured for figure, values in engine.rates.items()))


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bulkhead", type=pathlib.Path,
                        default=ROOT / "build/release/bin/bulkhead")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["llama"],
                        help=f"by commas, of {', '.join(PEERS)} (default: llama)")
    parser.add_argument("--weights", choices=("bf16", "int4"), default="bf16")
    parser.add_argument("--llama-server", type=pathlib.Path,
                        help="a llama-server built for this machine; default: build one")
    parser.add_argument("--isa", choices=("avx2",),
                        help="hold all to an instruction set below this machine's own: llama.cpp "
                        "is built for it, the others see no more where Linux can mask CPUID")
    parser.add_argument("--models", nargs="+", choices=peer_models.MODELS,
                        help="default: all with BF16 weights, llama-2048x16 with INT4")
    parser.add_argument("--answers", choices=("smollm2", "none"), default="smollm2",
                        help="the model whose answers are compared (default: smollm2)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true",
                        help="one short round that shows that everything works: no figures worth "
                        "keeping, table in build/bench, no history")
    parser.add_argument("--out", type=pathlib.Path, help="default: docs/benchmarks/, by machine")
    parser.add_argument("--no-history", action="store_true", help="leave bench/history.jsonl alone")
    parser.add_argument("--llama-on-both-sides", action="store_true",
                        help="check the method: the ratios must come out near 1")
    options = parser.parse_args(words)
    check(parser, options)
    return options


def check(parser, options):
    unknown = [engine for engine in options.engines if engine not in PEERS]
    if unknown:
        parser.error(f"no engine {unknown[0]}: there are {', '.join(PEERS)}")
    if options.isa and "openvino-bf16" in options.engines:
        parser.error("openvino-bf16 multiplies in BF16, which --isa avx2 has no products of")
    if options.models is None:
        options.models = ["llama-2048x16"] if options.weights == "int4" else \
            list(peer_models.MODELS)
    for name in options.models:
        if not peer_models.MODELS[name].engines(options.weights):
            parser.error(f"{name} has no form with {options.weights} weights")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.quick:
        options.rounds, options.no_history = 1, True
        options.out = options.out or peer_models.FOLDER / "peers-quick.md"
    if options.out is None:
        held = f"-held-to-{options.isa}" if options.isa else ""
        options.out = ROOT / "docs/benchmarks" / \
            f"peers-{machine.kind()}-{options.weights}{held}.md"


def main():
    options = parse_arguments()
    size = QUICK if options.quick else Size()
    makers = Sides(options, size.limits())
    everybody = {name: makers.of(name) for name in {*options.models, options.answers} - {"none"}}

    started_load = machine.load_average()
    if started_load > 0.5:
        print(f"warning: the load average is {started_load:.2f}; something else is running",
              file=sys.stderr)
    sections, ours_changed = [], 0
    for name in options.models:
        model = peer_models.MODELS[name]
        measured = compare(name, everybody[name], options.rounds, size)
        judged = options.weights == "int4" and not options.quick
        needed = model.needed if judged else {}
        sections.append(peer_tables.section(model.title, measured, needed))
        if not options.no_history:
            append_history(name, measured, options, ROOT / "bench/history.jsonl")
    if options.answers != "none":
        changes = count_changes(options.answers, everybody[options.answers], size)
        sections.append(peer_tables.answers_section(
            peer_models.MODELS[options.answers].title, changes, size.answer_tokens))
        ours = changes.get("Bulkhead")
        ours_changed = ours.alone_again + ours.together if ours else 0

    text = document(sections, options, size, started_load, makers.versions())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    print(text)
    print(f"written to {options.out}")
    if ours_changed:
        sys.exit(f"error: {ours_changed} of Bulkhead's own answers changed; none may")


if __name__ == "__main__":
    engines.end_servers_when_ended()
    try:
        main()
    except (engines.EngineFailed, load.RequestFailed) as failure:
        sys.exit(f"error: {failure}")
