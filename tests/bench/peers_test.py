"""The comparison with other engines, with engines that have no model: what is asked, counted,
computed and written."""

import asyncio
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import httpx
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "bench")]

import answers  # noqa: E402
import engines  # noqa: E402
import fake_peer  # noqa: E402
import load  # noqa: E402
import machine  # noqa: E402
import peer_models  # noqa: E402
import peer_server  # noqa: E402
import peer_tables  # noqa: E402
import peers  # noqa: E402

TINY = peers.Size(prefill_tokens=8, prefill_prompts=2, decode_prompt_tokens=4, decode_tokens=3,
                  concurrency=(1, 3), answer_prompts=4, answer_tokens=5)


@contextlib.contextmanager
def served(engine):
    """The URL of a peer_server.Server in a thread of its own."""
    port, stop = [], []
    ready = threading.Event()

    async def run():
        server = peer_server.Server(engine)
        port.append(await server.listen("127.0.0.1", 0))
        task = asyncio.ensure_future(server.run())
        stop.append((asyncio.get_running_loop(), task))
        ready.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{port[0]}"
    finally:
        loop, task = stop[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


def fake(name, *more, **fields):
    command = [sys.executable, str(HERE / "fake_peer.py"), "--model", "none", "--threads", "1",
               "--concurrent", "4", "--context", "64", *more]
    return engines.Engine(name, command, {}, HERE / "fake_peer.py", **fields)


def seconds_by_tokens(url, prompts, tokens, extra_fields):
    """Asks for real, and takes a second for each token whatever the clock says."""
    _SECONDS(url, prompts, tokens, extra_fields)
    return float(tokens)


_SECONDS = load.seconds


class Server(unittest.TestCase):
    def setUp(self):
        self.engine = fake_peer.Engine()
        self.url = self.enterContext(served(self.engine))

    def ask(self, body):
        return httpx.post(f"{self.url}/v1/completions", json=body)

    def test_an_answer_has_the_ids_and_counts_of_its_request(self):
        answer = self.ask({"prompt": [1, 2], "max_tokens": 3, "temperature": 0}).json()
        self.assertEqual(answer["choices"][0]["text"], "103 110 117")
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"],
                         {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5})

    def test_an_end_is_heeded_unless_it_is_to_be_ignored(self):
        body = {"prompt": [13], "max_tokens": 6, "temperature": 0}
        ended = self.ask(body).json()
        self.assertEqual(ended["usage"]["completion_tokens"], 3)
        self.assertEqual(ended["choices"][0]["finish_reason"], "stop")
        whole = self.ask({**body, "ignore_eos": True}).json()
        self.assertEqual(whole["usage"]["completion_tokens"], 6)

    def test_what_it_cannot_do_is_refused_and_the_connection_goes_on(self):
        with httpx.Client() as client:
            for body in (b"{", b"[]", b'{"prompt": "text"}', b'{"prompt": []}',
                         b'{"prompt": [1], "max_tokens": 0, "temperature": 0}',
                         b'{"prompt": [1], "max_tokens": 1}',
                         b'{"prompt": [1], "temperature": 0, "stream": true}'):
                answer = client.post(f"{self.url}/v1/completions", content=body)
                self.assertEqual(answer.status_code, 400, body)
                self.assertTrue(answer.json()["error"]["message"])
            self.assertEqual(client.get(f"{self.url}/v1/models").status_code, 404)
            self.assertEqual(client.get(f"{self.url}/health").status_code, 200)

    def test_an_idle_engine_is_not_stepped(self):
        self.ask({"prompt": [1], "max_tokens": 4, "temperature": 0})
        httpx.get(f"{self.url}/health")
        self.assertEqual(self.engine.batches, [1, 1, 1, 1])


class Batches(unittest.TestCase):
    def test_requests_reach_an_engine_that_is_busy(self):
        engine = fake_peer.Engine(hold=(0, 32))
        with served(engine) as url:
            load.seconds(url, [[n, n] for n in range(1, 33)], 4, {})
        self.assertEqual(engine.batches, [32] * 4)

    def test_an_idle_engine_that_generates_at_once_waits_while_more_come(self):
        async def gathered(arrivals):
            engine = mock.Mock(gather_seconds=1)
            server = peer_server.Server(engine)
            waits = []

            async def sleep(seconds):
                waits.append(seconds)
                for _ in range(arrivals.pop(0)):
                    server._answers[len(server._answers)] = None  # noqa: SLF001

            server._answers[0] = None  # noqa: SLF001
            with mock.patch.object(peer_server.asyncio, "sleep", sleep):
                await server._gather()  # noqa: SLF001
            return len(server._answers), waits  # noqa: SLF001

        self.assertEqual(asyncio.run(gathered([2, 5, 0, 9])), (8, [1, 1, 1]))
        self.assertEqual(asyncio.run(gathered([0])), (1, [1]))

    def test_answers_that_depend_on_who_else_is_there_are_counted(self):
        asked = [[n, 3] for n in range(1, 9)]
        for drifts in (False, True):
            with served(fake_peer.Engine(drifts, hold=(16, 8))) as url:
                self.assertEqual(answers.count_changes(url, asked, 5, {}),
                                 answers.Changes(8, 0, 8 if drifts else 0))
            with served(fake_peer.Engine(drifts, hold=(8, 8))) as url:
                self.assertEqual(answers.count_changes(url, asked, 5, {}, twice=False),
                                 answers.Changes(8, None, 8 if drifts else 0))


class Figures(unittest.TestCase):
    def test_percentiles_lie_between_values(self):
        self.assertEqual(peer_tables.percentile([5.0], 0.9), 5)
        self.assertAlmostEqual(peer_tables.percentile([3, 1, 2], 0.1), 1.2)
        self.assertAlmostEqual(peer_tables.percentile([3, 1, 2], 0.9), 2.8)
        self.assertEqual(peer_tables.percentile([3, 1, 2], 1.0), 3)

    def test_a_ratio_is_of_rounds_in_turn(self):
        ratio = peer_tables.ratio([20.0, 10.0, 60.0], [10.0, 10.0, 20.0])
        self.assertEqual(ratio.median, 2)
        self.assertEqual(str(peer_tables.ratio([20.0, 90.0], [10.0])), "2.00x [2.00..2.00]")

    def measured(self, name, rates, equal_bytes=True):
        return peer_tables.Measured(name, ["bin/serve", "--x"], equal_bytes,
                                    {"prefill 512": rates, "decode 1": rates}, 3 << 20, 5 << 20,
                                    4 << 20)

    def test_what_is_needed_is_over_the_best_at_equal_bytes(self):
        ours = self.measured("Bulkhead", [30.0, 30.0])
        sides = [ours, self.measured("slow", [10.0, 10.0]), self.measured("fast", [20.0, 20.0]),
                 self.measured("other bytes", [90.0, 90.0], equal_bytes=False)]
        self.assertEqual(peer_tables.best_peer(sides[1:], "decode 1").name, "fast")
        self.assertEqual(peer_tables.verdict(ours, sides[1:], "decode 1", {"decode 1": 1.4}),
                         [">= 1.4x of fast", "holds"])
        self.assertEqual(peer_tables.verdict(ours, sides[1:], "decode 1", {"decode 1": 1.6})[1],
                         "**falls short**")
        self.assertEqual(peer_tables.verdict(ours, sides[3:], "decode 1", {"decode 1": 1.6}),
                         ["-", "reported"])

    def test_a_section_has_every_engine_in_every_row(self):
        sides = [self.measured("Bulkhead", [30.0, 33.0]), self.measured("one", [10.0, 11.0]),
                 self.measured("floor", [10.0], equal_bytes=False)]
        text = peer_tables.section("A model", sides, {"decode 1": 2.0})
        self.assertIn("| decode, 1 request | 31.5 (30.0 to 33.0) | 10.5 (10.0 to 11.0) "
                      "| 10.0 (one round) |", text)
        self.assertIn("| weights | 3 MiB | 3 MiB | 3 MiB |", text)
        self.assertIn("| memory at its peak | 5 MiB | 5 MiB | 5 MiB |", text)
        self.assertIn("| decode, 1 request | 3.00x [3.00..3.00] | 3.00x [3.00..3.00] "
                      "| >= 2.0x of one | holds |", text)
        for rows in text.split("\n\n"):
            widths = {line.count("|") for line in rows.splitlines() if line.startswith("|")}
            self.assertLessEqual(len(widths), 1, rows)

    def test_changes_that_were_not_asked_for_are_no_zero(self):
        text = peer_tables.answers_section("m", {"a": answers.Changes(32, 0, 3),
                                                 "b": answers.Changes(32, None, 0)}, 64)
        self.assertIn("| asked alone once more | 0 | - |", text)
        self.assertIn("| asked all at once | 3 | 0 |", text)


class Processes(unittest.TestCase):
    def test_weights_are_a_file_or_what_the_log_says(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            log.write_text("Bulkhead\n  weights       int4 (--weights), 610.5 MiB in memory, int8 "
                           "activations: attention 1 GiB\n  loading 10%\n", encoding="utf-8")
            ours = engines.Engine("Bulkhead", [], {})
            self.assertEqual(engines.weight_bytes(ours, log), int(610.5 * 2**20))
            self.assertEqual(engines.weight_bytes(fake("x"), log),
                             (HERE / "fake_peer.py").stat().st_size)
            log.write_text("nothing\n", encoding="utf-8")
            with self.assertRaises(engines.EngineFailed):
                engines.weight_bytes(ours, log)

    def test_one_engine_in_two_precisions_has_two_names(self):
        limits, model = engines.Limits(2, 32, 640), pathlib.Path("model")
        sides = [engines.openvino("python", model, limits, how) for how in ("f32", "bf16")]
        self.assertEqual([one.name for one in sides], ["OpenVINO GenAI", "OpenVINO GenAI in BF16"])
        for engine, how in zip(sides, ("f32", "bf16")):
            self.assertEqual(engine.command[engine.command.index("--precision") + 1], how)
            self.assertEqual(engine.weight_file, model / "openvino_model.bin")

    def test_who_is_held_starts_with_the_mask_and_without_products_of_bf16(self):
        limits, model = engines.Limits(2, 32, 640), pathlib.Path("model")
        mask = pathlib.Path("lib/mask.so")
        with mock.patch.object(machine, "instruction_sets", return_value=["avx512_bf16"]):
            free, held = (engines.transformers("python", model, limits, True, with_mask)
                          for with_mask in (None, mask))
        self.assertEqual((free.name, held.name), ("transformers (BF16)", "transformers (FP32)"))
        self.assertEqual(held.command[:3], ["env", "LD_PRELOAD=lib/mask.so", "python"])
        plain = engines.openvino("python", model, limits, "f32")
        self.assertEqual(engines.openvino("python", model, limits, "f32", mask).command,
                         ["env", "LD_PRELOAD=lib/mask.so", *plain.command])

    def test_memory_is_read_of_a_process(self):
        peak, private = engines.memory(os.getpid())
        self.assertGreater(peak, private)
        self.assertGreater(private, 1 << 20)

    def test_ours_gets_room_for_as_many_tokens_as_the_peers(self):
        limits = engines.Limits(2, 32, 640)
        words = engines.bulkhead_options("int4", limits, 100)
        self.assertEqual(words[-2:], ["--kv-cache-memory", str(32 * 640 * 100)])
        self.assertIn("int4,head=int4,embedding=int4", words)
        part_filled = engines.bulkhead_options("int4", engines.Limits(2, 32, 641), 100)
        self.assertEqual(part_filled[-1], str(32 * 704 * 100))
        self.assertEqual(engines.bulkhead_options("bf16", limits, None), [])


class Comparison(unittest.TestCase):
    def setUp(self):
        self.logs = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(peers, "LOGS", self.logs))
        self.enterContext(mock.patch.object(load, "seconds", seconds_by_tokens))
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def test_who_goes_first_takes_turns_and_a_floor_rests(self):
        sides = [fake("a"), fake("b"), fake("c", rounds_max=1)]
        names = [[engine.name for engine in peers.turns(sides, number)] for number in range(4)]
        self.assertEqual(names, [["a", "b", "c"], ["b", "a"], ["a", "b"], ["a", "b"]])

    def test_every_engine_is_measured_and_written_down(self):
        sides = [fake("Bulkhead"), fake("peer"), fake("floor", rounds_max=1, equal_bytes=False)]
        measured = peers.compare("llama-2048x16", sides, 2, TINY)
        self.assertEqual([one.name for one in measured], ["Bulkhead", "peer", "floor"])
        for one in measured:
            rounds = 1 if one.name == "floor" else 2
            self.assertEqual(one.rates, {"prefill 8": [8.0] * rounds, "decode 1": [1.0] * rounds,
                                         "decode 3": [3.0] * rounds})
            self.assertGreater(one.peak_bytes, 1 << 20)
            self.assertGreater(one.private_bytes, 1 << 20)
        options = peers.parse_arguments(["--weights", "int4", "--engines", "llama,openvino"])
        path = self.logs / "history.jsonl"
        peers.append_history("llama-2048x16", measured, options, path)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(len(lines), 9)
        known = (ROOT / "bench" / "history.jsonl").read_text(encoding="utf-8").splitlines()[0]
        for line in lines:
            self.assertEqual(list(line), list(json.loads(known)))
            self.assertEqual((line["model"], line["isa"]), ("llama-2048x16 int4", "native"))
        section = peer_tables.section("m", measured, {})
        text = peers.document([section], options, TINY, 0.1, ["llama.cpp: 1"])
        self.assertIn("INT4 weights", text.splitlines()[0])
        self.assertIn(section, text)

    def test_answers_are_asked_in_the_same_ids_of_one_server_after_another(self):
        asked = [[n, 4] for n in range(1, 9)]
        with mock.patch.object(answers, "token_prompts", return_value=asked) as tokenizer:
            changes = peers.count_changes("smollm2", [
                fake("Bulkhead"), fake("peer", "--drifts", "--hold", "8", "4"),
                fake("floor", rounds_max=1)], TINY)
        tokenizer.assert_called_once()
        self.assertEqual([one.asked for one in changes.values()], [4, 4, 4])
        self.assertEqual(changes["Bulkhead"], answers.Changes(4, 0, 0))
        self.assertEqual(changes["peer"], answers.Changes(4, 0, 4))
        self.assertIsNone(changes["floor"].alone_again)


class Arguments(unittest.TestCase):
    def refused(self, *words):
        text = io.StringIO()
        with contextlib.redirect_stderr(text), self.assertRaises(SystemExit) as end:
            peers.parse_arguments(list(words))
        self.assertEqual(end.exception.code, 2)
        return text.getvalue()

    def test_defaults_follow_the_weights(self):
        plain = peers.parse_arguments([])
        self.assertEqual((plain.engines, plain.models), (["llama"], list(peer_models.MODELS)))
        self.assertTrue(plain.out.name.endswith("-bf16.md"))
        four = peers.parse_arguments(["--weights", "int4"])
        self.assertEqual(four.models, ["llama-2048x16"])
        self.assertNotEqual(four.out, plain.out)
        quick = peers.parse_arguments(["--quick", "--rounds", "9"])
        self.assertEqual((quick.rounds, quick.no_history), (1, True))
        self.assertNotIn("docs", quick.out.parts)

    def test_what_cannot_be_compared_is_refused(self):
        self.assertIn("no engine vllm", self.refused("--engines", "llama,vllm"))
        self.assertIn("openvino-bf16 multiplies in BF16",
                      self.refused("--isa", "avx2", "--engines", "openvino,openvino-bf16"))
        self.assertIn("mini-K has no form", self.refused("--weights", "int4", "--models", "mini-K"))
        self.assertIn("--rounds", self.refused("--rounds", "0"))

    def test_every_form_of_a_model_is_made_before_it_is_read(self):
        for model in peer_models.MODELS.values():
            for steps in model.steps.values():
                made = [peer_models.SMALL]
                for step in steps:
                    paths = [one for one in step.arguments if isinstance(one, pathlib.Path)]
                    self.assertTrue(set(paths) <= set(made), step)
                    self.assertTrue((ROOT / step.script).is_file(), step)
                    made.append(step.out)


class Forms(unittest.TestCase):
    """A tiny Llama in the form of each engine."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.gguf = cls.folder / "tiny.gguf"
        cls.make("make_random_gguf.py", "--hidden", "64", "--layers", "2", "--heads", "4",
                 "--kv-heads", "2", "--head-dim", "16", "--feed-forward", "96", "--vocabulary",
                 "512", cls.gguf)

    @staticmethod
    def make(script, *words):
        subprocess.run([sys.executable, ROOT / "tools" / "bench" / script, *words], check=True,
                       capture_output=True)

    def tensors(self, path):
        import gguf
        return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}

    def test_q4_0_has_four_and_a_half_bits_for_every_matrix(self):
        import gguf
        out = self.folder / "tiny-q4_0.gguf"
        self.make("to_gguf.py", "q4_0", self.gguf, out)
        before, after = self.tensors(self.gguf), self.tensors(out)
        self.assertEqual(set(before), set(after))
        for name, tensor in after.items():
            if len(tensor.shape) == 1:
                continue
            self.assertEqual(tensor.tensor_type, gguf.GGMLQuantizationType.Q4_0, name)
            self.assertEqual(tensor.n_bytes * 8, tensor.n_elements * 9 // 2, name)
            values = [gguf.quants.dequantize(one.data, one.tensor_type)
                      for one in (before[name], tensor)]
            self.assertLess(np.abs(values[0] - values[1]).max(), np.abs(values[0]).max() / 7, name)

    def test_the_checkpoint_has_the_same_matrices_rotated_by_halves(self):
        out = self.folder / "tiny-hf"
        self.make("to_hf_checkpoint.py", self.gguf, out)
        config = json.loads((out / "config.json").read_text(encoding="utf-8"))
        self.assertEqual((config["num_attention_heads"], config["num_key_value_heads"],
                          config["head_dim"], config["vocab_size"]), (4, 2, 16, 512))
        self.assertFalse(config["tie_word_embeddings"])
        data = (out / "model.safetensors").read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        header.pop("__metadata__")
        self.assertEqual(len(data) - start, header[list(header)[-1]]["data_offsets"][1])

        def stored(name):
            entry = header[name]
            begin, end = entry["data_offsets"]
            codes = np.frombuffer(data[start + begin:start + end], np.uint16)
            return codes.reshape(entry["shape"])

        source = self.tensors(self.gguf)
        down = source["blk.1.ffn_down.weight"].data.view(np.uint16)
        self.assertTrue(np.array_equal(stored("model.layers.1.mlp.down_proj.weight"), down))
        self.assertEqual(set(stored("model.norm.weight").tolist()), {0x3F80})
        for part, name in (("attn_q", "q_proj"), ("attn_k", "k_proj")):
            rows = source[f"blk.0.{part}.weight"].data.view(np.uint16)
            halves = stored(f"model.layers.0.self_attn.{name}.weight")
            for row in range(len(rows)):
                # Neighbours 2i and 2i + 1 of a head are rotated together in a GGUF, i and i + 8
                # in a checkpoint.
                head, at = divmod(row, 16)
                there = 16 * head + at // 2 + 8 * (at % 2)
                self.assertTrue(np.array_equal(rows[row], halves[there]), (name, row))


if __name__ == "__main__":
    unittest.main()
