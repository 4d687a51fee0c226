"""`bulkhead bench replay` against the real server: what it finds in the cache is what a simulated
cache of that size finds, token for token; and `bulkhead bench history`."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

from harness import ROOT, Server, find_binary, quick
from test_bench_serve import run_bulkhead

sys.path.insert(0, str(ROOT / "bench"))
import history  # noqa: E402
import machine  # noqa: E402

MODEL = ROOT / "models" / "tiny-moe"
SHARED = pathlib.Path(os.environ.get("BULKHEAD_SHARED", ROOT.parent / "shared"))
TRACES = SHARED / "data" / "traces"


def conversations(count, turns):
    """Rows of so many conversations in turn: each asks again with all it had, and some more."""
    rows, fresh = [], 1000
    chains = [[index % 2] for index in range(count)]  # two beginnings that several share
    for turn in range(turns):
        for chain in chains:
            added = 1 + (turn + len(chain)) % 3
            chain += range(fresh, fresh + added)
            fresh += added
            tail = 512 - 37 * (fresh % 11)
            rows.append(
                {
                    "timestamp": 50 * len(rows),
                    "input_length": 512 * (len(chain) - 1) + tail,
                    "output_length": 100 + 90 * (fresh % 5),
                    "hash_ids": list(chain),
                }
            )
            if tail < 512:  # its last block was only begun: the next turn has another
                chain.pop()
    return "".join(json.dumps(row) + "\n" for row in rows), len(rows)


def found_by_request(run):
    return [record["cached_tokens"] for record in run["requests"]]


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class BenchReplay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = pathlib.Path(cls.folder.name) / "trace.jsonl"
        text, cls.rows = conversations(6, 8)
        cls.trace.write_text(text, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def server(self, *flags):
        server = Server(["--page-size", "16", *flags], model=str(MODEL))
        self.addCleanup(server.stop)
        return server

    def replay(self, server, *words, trace=None, code=0):
        out = pathlib.Path(self.folder.name) / "run.json"
        out.unlink(missing_ok=True)
        done = run_bulkhead(
            *("bench", "replay", str(trace or self.trace), "--url", server.url),
            *("--output", str(out), *words),
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        run = json.loads(out.read_text(encoding="utf-8")) if out.exists() else None
        return run, done.stdout, done.stderr

    def one_by_one(self, server, *words, **more):
        return self.replay(server, "--closed-loop", "--concurrency", "1", *words, **more)

    def assert_as_simulated(self, run, table):
        replay = run["replay"]
        simulated = replay["simulated"]
        self.assertEqual((run["failed"], run["short_answers"]), (0, 0))
        self.assertTrue(replay["one_at_a_time"])
        self.assertEqual(found_by_request(run), simulated["cached_tokens_of_requests"])
        self.assertEqual(run["cached_tokens"], simulated["cached_tokens"])
        self.assertEqual(replay["cached_share"], simulated["cached_share"])
        self.assertIn("longest unused first: equal\n", table)

    def test_a_cache_finds_what_the_simulated_one_finds_token_for_token(self):
        found = {}
        # 51 pages, so that most of what was known is given up again; and enough for everything.
        for memory in ("1MiB", "16MiB"):
            server = self.server("--kv-cache-memory", memory)
            for words in (("--warmup", "2"), ("--flush-cache", "--seed", "2")):
                run, table, _ = self.one_by_one(server, "--length-scale", "16", *words)
                self.assertEqual(run["completed"], min(self.rows, 64))
                self.assert_as_simulated(run, table)
                found[memory] = run["cached_tokens"]
        self.assertGreater(found["1MiB"], 0)
        self.assertLess(found["1MiB"], found["16MiB"], "the small cache gave nothing up")

    def test_where_decode_has_a_cache_of_its_own_answers_stay_out_of_the_other(self):
        server = self.server(
            *("--placement", "split", "--prefill.kv-cache-memory", "1MiB"),
            *("--decode.kv-cache-memory", "4MiB"),
        )
        run, table, _ = self.one_by_one(server, "--length-scale", "16")
        self.assertFalse(run["replay"]["simulated"]["keeps_answers"])
        self.assert_as_simulated(run, table)
        self.assertGreater(run["cached_tokens"], 0)

    def test_arrivals_are_the_traces_divided(self):
        server = self.server("--kv-cache-memory", "16MiB")
        run, table, _ = self.replay(
            server,
            *("--length-scale", "32", "--time-scale", "5", "--start", "3", "--requests", "7"),
            *("--goodput", "ttft:600000,itl:600000", "--warmup", "0"),
        )
        self.assertEqual(run["bench"], "replay")
        self.assertEqual(len(run["requests"]), 7)
        for index, record in enumerate(run["requests"]):
            self.assertAlmostEqual(record["start_s"], 0.05 * index / 5)
        self.assertEqual((run["goodput"]["good"], run["goodput"]["share"]), (7, 1))
        self.assertIn("P99 ITL (ms):", table)
        self.assertIn("goodput: 7 of 7 requests within", table)
        self.assertEqual(run["replay"]["block_tokens"], 16)

    def test_what_cannot_be_replayed_is_said(self):
        server = self.server("--kv-cache-memory", "1MiB")
        _, _, said = self.one_by_one(server, code=2)
        self.assertRegex(said, "line [0-9]+: [0-9]+ tokens do not fit the server's context")
        self.assertRegex(said, "try --length-scale [0-9]+")
        broken = pathlib.Path(self.folder.name) / "broken.jsonl"
        broken.write_text(self.trace.read_text(encoding="utf-8") + "{}\n", encoding="utf-8")
        _, _, said = self.one_by_one(server, "--requests", "1000", trace=broken, code=2)
        self.assertIn(f'broken.jsonl line {self.rows + 1}: "timestamp" is not', said)
        for words in (
            ("--length-scale", "0.5"),
            ("--time-scale", "nan"),
            ("--cache-pages", "5"),
            ("--page-tokens", "16"),
            ("--cache-pages", "5", "--page-tokens", "24"),
            ("--requests", "0"),
            ("--start", "1000"),
        ):
            self.one_by_one(server, *words, code=2)

    def test_a_cache_of_another_size_is_not_the_servers(self):
        server = self.server("--kv-cache-memory", "16MiB")
        run, table, _ = self.one_by_one(
            server, "--length-scale", "16", "--cache-pages", "51", "--page-tokens", "16"
        )
        self.assertLess(run["replay"]["simulated"]["cached_tokens"], run["cached_tokens"])
        self.assertIn("longest unused first: not equal\n", table)

    @unittest.skipUnless(TRACES.is_dir(), "../shared with its traces is absent (BULKHEAD_SHARED)")
    def test_a_part_of_a_real_trace_finds_what_the_simulated_cache_finds(self):
        server = self.server("--kv-cache-memory", "8MiB")
        words = ("--length-scale", "32", "--requests", str(quick(60, 15)), "--flush-cache")
        for start in ("0", "3000"):
            run, table, _ = self.one_by_one(
                server, "--start", start, *words, trace=TRACES / "mooncake-conversation.jsonl"
            )
            self.assert_as_simulated(run, table)
            self.assertGreater(run["cached_tokens"], 0)
        for name in ("azure-2023-conv.csv", "azure-2023-code.csv"):
            run, table, _ = self.one_by_one(server, *words, trace=TRACES / name)
            self.assert_as_simulated(run, table)
            self.assertEqual(run["cached_tokens"], 0, "its rows have nothing in common")


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class BenchHistory(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "history.jsonl"

    def lines(self):
        text = self.file.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def test_loads_add_their_figures_and_the_table_shows_them(self):
        server = Server(["--kv-cache-memory", "16MiB"], model=str(MODEL))
        self.addCleanup(server.stop)
        trace = pathlib.Path(self.folder.name) / "trace.jsonl"
        trace.write_text(conversations(2, 2)[0], encoding="utf-8")
        common = ("--url", server.url, "--requests", "3", "--history", str(self.file))
        for words in (
            ("bench", "serve", "--input-tokens", "8", "--output-tokens", "3"),
            ("bench", "replay", str(trace), "--length-scale", "64"),
        ):
            done = run_bulkhead(*words, *common)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = self.lines()
        self.assertEqual({line["bench"] for line in lines}, {"serve", "replay"})
        self.assertIn("prefix hits", {line["figure"] for line in lines})
        self.assertEqual({line["machine"] for line in lines}, {machine.describe()})
        self.assertEqual({line["engine"] for line in lines}, {"bulkhead"})
        self.assertRegex(lines[0]["commit"], r"^([0-9a-f]{7,40}(\+changes)?|unknown)$")
        self.assertRegex(lines[0]["date"], "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
        done = run_bulkhead("bench", "history", str(self.file), "--fail-on-fall")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(machine.describe(), done.stdout)
        self.assertIn("too few", done.stdout)

    def test_a_load_with_a_failed_request_adds_nothing(self):
        server = Server(["--kv-cache-memory", "16MiB"], model=str(MODEL))
        self.addCleanup(server.stop)
        words = ("bench", "serve", "--url", server.url, "--requests", "2", "--warmup", "0")
        done = run_bulkhead(*words, "--output-tokens", "10000000", "--history", str(self.file))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.lines(), [])

    def test_a_fall_ends_with_1_where_that_is_asked_for(self):
        entry = {"bench": "b", "date": "d", "commit": "c", "machine": "m", "figure": "f"}
        entry["unit"] = "tokens/s"
        values = [100, 101, 99, 50]
        text = "".join(json.dumps({**entry, "median": value}) + "\n" for value in values)
        self.file.write_text(text, encoding="utf-8")
        done = run_bulkhead("bench", "history", str(self.file))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("FELL", done.stdout)
        self.assertEqual(
            run_bulkhead("bench", "history", str(self.file), "--fail-on-fall").returncode, 1
        )
        self.file.write_text(text + "{}\n", encoding="utf-8")
        done = run_bulkhead("bench", "history", str(self.file))
        self.assertEqual(done.returncode, 2)
        self.assertIn('history.jsonl line 5: "bench" is not a text', done.stderr)

    def test_what_the_scripts_write_is_the_same_history(self):
        for value in (100, 101, 99, 120):
            one = history.entry("scaling", "step", "ms", [value], model="m", engine="Bulkhead")
            history.append(self.file, [one])
        done = run_bulkhead("bench", "history", str(self.file), "--fail-on-fall")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, "scaling, m, Bulkhead: step +4 +100 +120 +1.20x +ms +FELL")

    def test_the_committed_history_is_read(self):
        done = run_bulkhead("bench", "history", str(history.FILE))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("peer_llama, smollm2, Bulkhead, avx2: decode 8", done.stdout)
