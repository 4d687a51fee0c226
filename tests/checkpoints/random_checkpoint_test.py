"""The seeded random checkpoints of tools/checkpoints: their encoders against the definitions,
`bulkhead inspect` on every family in every format, and weights loaded as stored and by recipe.

    random_checkpoint_test.py path/to/bulkhead
"""

import contextlib
import copy
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "checkpoints"))
import encode  # noqa: E402
import make_random_checkpoint as make  # noqa: E402
import presets  # noqa: E402
import shapes  # noqa: E402

BULKHEAD = pathlib.Path()

_GQA = {"vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 128, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
_LATENT = dict(presets.PRESETS["nano"], num_hidden_layers=2, moe_intermediate_size=64)
_INDEXER = {"index_n_heads": 2, "index_head_dim": 64, "index_topk": 4}


def configs():
    """One small configuration of every family."""
    plain_rope = {"rope_type": "default", "rope_theta": 8e6}
    indexed = {key: value for key, value in _LATENT.items()
               if key not in ("rope_theta", "rope_scaling")} | _INDEXER
    out = {
        "llama": dict(_GQA, attention_bias=True, mlp_bias=True), "qwen2": _GQA, "qwen3": _GQA,
        "qwen3_moe": dict(_GQA, **_EXPERTS, num_experts=4, mlp_only_layers=[0],
                          decoder_sparse_step=1),
        "glm4_moe": dict(_GQA, **_EXPERTS, n_routed_experts=4, n_shared_experts=1, n_group=1,
                         topk_group=1, first_k_dense_replace=1, partial_rotary_factor=0.5,
                         attention_bias=True, use_qk_norm=True, routed_scaling_factor=2.5),
        "deepseek_v3": _LATENT, "kimi_k2": _LATENT,
        "kimi_k25": {"text_config": dict(_LATENT, model_type="kimi_k2"),
                     "tie_word_embeddings": False},
        "deepseek_v32": dict(indexed, rope_parameters=plain_rope),
        "glm_moe_dsa": dict(indexed, rope_parameters=plain_rope, num_hidden_layers=4,
                            index_topk_freq=2, index_skip_topk_offset=1)}
    return {name: dict(copy.deepcopy(config), model_type=name) for name, config in out.items()}


def write(config, form, out, seed=1):
    experts = config["model_type"] not in shapes.DENSE
    with contextlib.redirect_stdout(io.StringIO()):
        make.write_checkpoint(config, make.Store(form, experts), seed, out)


class Encoders(unittest.TestCase):
    def test_bf16_rounds_to_nearest_even(self):
        values = np.array([1.0, 1.00390625, 1.01171875, -1.0039064, 3.4e38], np.float32)
        self.assertEqual(encode.to_bf16(values).tolist(), [0x3F80, 0x3F80, 0x3F82, 0xBF81, 0x7F80])

    def test_e4m3_gives_the_reference_codes(self):
        values = np.array([448, 449, 480, 2**-9, 2**-10, 0.0146484375, 0.015625, 1.0625, 1.1875,
                           17, 19, 0.3, -0.0], np.float32)
        codes = [0x7E, 0x7E, 0x7E, 0x01, 0x00, 0x08, 0x08, 0x38, 0x3A, 0x58, 0x5A, 0x2A, 0x80]
        self.assertEqual(encode.to_e4m3(values).tolist(), codes)

    def test_fp8_blocks_use_the_whole_range_of_each_block(self):
        values = np.random.default_rng(1).standard_normal((128, 200), np.float32)
        values[:, 128:] *= 100
        codes, scales = encode.fp8_blocks(values)
        self.assertEqual(scales.shape, (2,))
        for begin, scale in ((0, scales[0]), (128, scales[1])):
            block = values[:, begin:begin + 128]
            self.assertAlmostEqual(float(np.abs(block).max() / scale), 448, places=3)
            self.assertEqual(int((codes[:, begin:begin + 128] & 127).max()), 0x7E)

    def test_int4_words_hold_the_nearest_codes_lowest_first(self):
        values = np.random.default_rng(2).standard_normal((3, 64), np.float32)
        words, scales = encode.int4_groups(values)
        self.assertEqual((words.shape, scales.shape), ((3, 8), (3, 2)))
        nibbles = (words.view(np.uint32)[:, :, None] >> (4 * np.arange(8, dtype=np.uint32))) & 15
        codes = nibbles.astype(np.float32).reshape(3, 2, 32) - 8
        steps = encode.from_bf16(scales)[:, :, None]
        self.assertLessEqual(np.abs(codes).max(), 7)
        error = np.abs(codes * steps - values.reshape(3, 2, 32))
        self.assertTrue((error <= 0.52 * steps).all())


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def run_bulkhead(self, *arguments):
        done = subprocess.run([BULKHEAD, *arguments], capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode("utf-8", "replace")

    def inspect(self, path):
        return self.run_bulkhead("inspect", path)

    def test_every_family_in_every_format_is_a_whole_checkpoint(self):
        for name, config in configs().items():
            for form in ("bf16", "fp8", "int4"):
                with self.subTest(family=name, format=form):
                    path = self.path / f"{name}-{form}"
                    write(config, form, path)
                    facts = self.inspect(path)
                    self.assertIn("as stored", facts)
                    kind = {"bf16": "BF16", "fp8": "FP8 e4m3 128x128",
                            "int4": "INT4 g32 symmetric"}[form]
                    self.assertIn(kind, facts)
                    self.assertIn("tokenizer.json", facts)

    def test_the_same_seed_writes_the_same_bytes_and_another_others(self):
        config = configs()["qwen3_moe"]
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            write(config, "int4", self.path / name, seed)
        files = [(self.path / name / "model.safetensors").read_bytes() for name in "abc"]
        self.assertEqual(files[0], files[1])
        self.assertNotEqual(files[0], files[2])

    def test_a_checkpoint_of_several_files_has_an_index_of_all_of_them(self):
        limit, make.SHARD_BYTES = make.SHARD_BYTES, 100_000
        self.addCleanup(setattr, make, "SHARD_BYTES", limit)
        write(configs()["glm4_moe"], "fp8", self.path / "x")
        self.assertGreater(len(list((self.path / "x").glob("model-*.safetensors"))), 1)
        self.assertIn("as stored", self.inspect(self.path / "x"))

    def test_formats_stay_as_they_are_or_become_what_a_recipe_says(self):
        wanted = [("bf16", "auto", "bf16 (as stored)"), ("fp8", "auto", "fp8 (as stored)"),
                  ("int4", "auto", "kimi (as stored)"), ("fp8", "bf16", "bf16 (--weights)"),
                  ("bf16", "kimi-fp8", "kimi-fp8 (--weights)"),
                  ("fp8", "int4", "int4 (--weights; ")]
        for preset in ("nano", "nano-G"):
            for form in ("bf16", "fp8", "int4"):
                write(presets.PRESETS[preset], form, self.path / f"{preset}-{form}")
            for form, weights, expected in wanted:
                with self.subTest(preset=preset, format=form, weights=weights):
                    path = self.path / f"{preset}-{form}"
                    model = [path, "--weights", weights, "--kv-cache-memory", "16M", "-t", "1"]
                    plan = self.run_bulkhead("serve", *model, "--dry-run")
                    self.assertIn(expected, plan)
                    answers = {self.run_bulkhead("generate", *model, "-p", "abcd", "-n", "6",
                                                 "--temperature", "0") for _ in range(2)}
                    self.assertEqual(len(answers), 1)

    def test_presets_have_the_sizes_they_are_named_for(self):
        for name, billions in (("mini-K", 1.31), ("mini-G", 3.3)):
            tensors = shapes.tensors_of(presets.PRESETS[name])
            count = sum(int(np.prod(tensor.shape)) for tensor in tensors)
            self.assertAlmostEqual(count / 1e9, billions, delta=0.05)

    def test_a_bf16_cache_bounds_the_grouped_shape_by_memory(self):
        config = presets.PRESETS["mini-L"]
        context, requests = 1024, 32
        layers, width = config["num_hidden_layers"], config["head_dim"]
        stored = 2 * 2 * config["num_key_value_heads"] * width * layers
        attention = 4 * config["num_attention_heads"] * width * layers * context
        weights = 2 * sum(int(np.prod(tensor.shape)) for tensor in shapes.tensors_of(config)
                          if tensor.kind in ("linear", "head"))
        arithmetic = (attention + weights) / 200e9
        # FP8's half of the bytes is no less than the arithmetic, so that BF16's are twice that.
        self.assertGreaterEqual(stored / 2 * context / 32e9, arithmetic)
        self.assertGreaterEqual(stored * (context + 64) * requests, 500e6)


if __name__ == "__main__":
    BULKHEAD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
