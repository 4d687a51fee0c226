"""The models of the comparison: one set of weights, in the file that each engine reads."""

import dataclasses
import pathlib
import subprocess
import sys

import machine

ROOT = machine.ROOT
FOLDER = ROOT / "build" / "bench"
SMALL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PEERS_PYTHON = ROOT / "build" / "peers-venv" / "bin" / "python"


@dataclasses.dataclass(frozen=True)
class Step:
    """A file or folder, and what makes it: a script, its arguments without the path."""
    out: pathlib.Path
    script: str
    arguments: tuple = ()
    python: pathlib.Path = pathlib.Path(sys.executable)


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    vocabulary: int
    # {(engine, "bf16" or "int4"): steps, of which the last makes the engine's file}
    steps: dict
    # Bytes of a token's cache at 16 bits a value, so that ours has the room of the peers'; None: as
    # much as we take by default.
    cache_token_bytes: int = None
    speaks: bool = False  # else its answers are noise of near-equal odds
    # What Bulkhead has to reach with INT4 weights over the best peer at equal bytes.
    needed: dict = dataclasses.field(default_factory=dict)

    def engines(self, weights):
        return [engine for engine, of in self.steps if of == weights]

    def file(self, engine, weights):
        return self.steps[engine, weights][-1].out


def _llama_family(name, source):
    """All forms of a Llama whose BF16 GGUF `source` makes."""
    q4_0 = Step(FOLDER / f"{name}-q4_0.gguf", "tools/bench/to_gguf.py", ("q4_0", source.out))
    hf = Step(FOLDER / f"{name}-hf", "tools/bench/to_hf_checkpoint.py", (source.out,))
    openvino = {weights: Step(FOLDER / f"{name}-openvino-{weights}", "tools/bench/to_openvino.py",
                              (weights, hf.out), PEERS_PYTHON) for weights in ("bf16", "int4")}
    made = {
        ("bulkhead", "bf16"): (source,), ("bulkhead", "int4"): (source,),  # quantised at load
        ("llama", "bf16"): (source,), ("llama", "int4"): (source, q4_0),
        ("openvino", "bf16"): (source, hf, openvino["bf16"]),
        ("openvino", "int4"): (source, hf, openvino["int4"]),
        # The floor: BF16 whatever the others have.
        ("transformers", "bf16"): (source, hf), ("transformers", "int4"): (source, hf),
    }
    # The same files, multiplied in another precision.
    for weights in ("bf16", "int4"):
        made["openvino-bf16", weights] = made["openvino", weights]
    return made


_MINI_K = Step(FOLDER / "mini-K", "tools/checkpoints/make_random_checkpoint.py", ("mini-K",))

MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct", 49152,
        _llama_family("smollm2", Step(FOLDER / "smollm2-bf16.gguf", "tools/bench/to_gguf.py",
                                      ("bf16", SMALL))),
        cache_token_bytes=30 * 3 * 64 * 2 * 2, speaks=True),
    "llama-2048x16": Model(
        "seeded random Llama, 2048 x 16, 32/8 heads of 64, ff 5632, vocabulary 32000", 32000,
        _llama_family("llama-2048x16", Step(FOLDER / "llama-2048x16.gguf",
                                            "tools/bench/make_random_gguf.py")),
        cache_token_bytes=16 * 8 * 64 * 2 * 2,
        needed={"prefill 512": 1.8, "decode 1": 1.4, "decode 8": 2.0, "decode 32": 2.3}),
    "mini-K": Model(
        "mini-K, seeded random Kimi: 1.31 billion parameters, 0.23 active, 64 heads over a latent "
        "of 512 + 64, 64 experts of which 4 (safetensors here, the same weights as GGUF there)",
        32768, {("bulkhead", "bf16"): (_MINI_K,),
                ("llama", "bf16"): (_MINI_K, Step(FOLDER / "mini-K.gguf",
                                                  "tools/bench/to_deepseek2_gguf.py",
                                                  (_MINI_K.out,)))}),
}


def prepare(steps):
    """Makes what is not there yet, in order."""
    for step in steps:
        if not step.out.exists():
            step.out.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([str(step.python), str(ROOT / step.script),
                            *map(str, step.arguments), str(step.out)], check=True)
