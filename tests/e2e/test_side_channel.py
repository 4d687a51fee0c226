"""Nobody learns from counts or times what another key has cached.

One key asks a prompt; then another asks the same one, and one that nobody asked, in random order.
The two must be alike. The same test, the second key being the first, must see the difference.
Counts decide; times are told, and decide only where BULKHEAD_SIDE_CHANNEL_PAIRS asks for as many
pairs as their noise needs (README.md).
"""

import http.client
import json
import os
import pathlib
import random
import statistics
import sys
import time
import unittest

from harness import (
    REQUEST_SECONDS,
    ROOT,
    Server,
    call,
    find_binary,
    headers_for,
    idle,
    metrics,
    open_request,
    quick,
    wait_until,
)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "leak"))
import two_samples  # noqa: E402

COMPLETIONS = "/v1/completions"
ALICE, BOB = "key-of-alice", "key-of-bob"
PAIRS = int(os.environ.get("BULKHEAD_SIDE_CHANNEL_PAIRS", quick(400, 40)))
TIMES_DECIDE = PAIRS >= 10000
SIGNIFICANCE = 0.01  # of the two tests of times together
PAGE = 16
PAGES = 8  # whole ones of a prompt
FLAGS = ["--page-size", str(PAGE), "--admin-key", "key-of-admin", "--log-level", "warning"]


def fresh_prompt(rng):
    """Token ids that nobody had before; all prompts are equally long."""
    return [rng.randrange(512) for _ in range(PAGES * PAGE + 5)]


class Caller:
    """One key's; the connection stays open."""

    def __init__(self, server, key, **fields):
        self._connection = http.client.HTTPConnection(server.host, server.port,
                                                      timeout=REQUEST_SECONDS)
        self._headers = headers_for(server, {"Authorization": f"Bearer {key}"})
        self._fields = {"max_tokens": 1, "temperature": 0, "stream": True,
                        "stream_options": {"include_usage": True}, **fields}

    def ask(self, prompt, **more):
        """(seconds until the answer begins, with its first token; prompt tokens cached)."""
        body = json.dumps({"prompt": prompt, **self._fields, **more})
        begin = time.perf_counter()
        self._connection.request("POST", COMPLETIONS, body, self._headers)
        response = self._connection.getresponse()
        seconds = time.perf_counter() - begin
        text = response.read().decode()
        assert response.status == 200, text
        events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        usage = json.loads(events[-2])["usage"]
        assert usage["prompt_tokens"] == len(prompt), usage
        return seconds, usage["prompt_tokens_details"]["cached_tokens"]

    def close(self):
        self._connection.close()


def probe(first, second, pairs, seed):
    """`second` asks in each pair what `first` asked before and what nobody did: (times, counts)."""
    rng = random.Random(seed)
    times, counts = [], []
    for _ in range(pairs):
        asked, never, other = (fresh_prompt(rng) for _ in range(3))
        for prompt in rng.sample((asked, other), 2):
            first.ask(prompt)
        got = {}
        for which in rng.sample((0, 1), 2):
            got[which] = second.ask((asked, never)[which])
        times.append((got[0][0], got[1][0]))
        counts.append((got[0][1], got[1][1]))
    return times, counts


def told(name, times):
    """p-values of the times, printed."""
    p_values = two_samples.distribution_p(times), two_samples.rank_p(times)
    medians = [statistics.median(times[which] for times in times) * 1e3 for which in (0, 1)]
    print(f"{name}, {len(times)} pairs: first token after {medians[0]:.3f} ms where the other had "
          f"asked, {medians[1]:.3f} ms where nobody had (medians); p {p_values[0]:.4f} "
          f"(distribution), {p_values[1]:.4f} (ranks)", flush=True)
    return p_values


class TwoSamples(unittest.TestCase):
    @staticmethod
    def pairs(seed, count, shift=0.0):
        """Pairs whose noise drifts, with outliers."""
        rng = random.Random(seed)
        made = []
        for index in range(count):
            drift = 10 + index / count * 5
            made.append(tuple(drift + rng.gauss(0, 1) + (rng.random() < 0.02) * 50 + more
                              for more in (shift, 0.0)))
        return made

    def test_samples_of_one_kind_are_seldom_told_apart(self):
        for p in (two_samples.distribution_p, two_samples.rank_p):
            found = [p(self.pairs(seed, 200), rounds=199) for seed in range(60)]
            self.assertLessEqual(sum(value <= 0.1 for value in found), 12)  # 6 are expected
            self.assertGreater(max(found), 0.8)

    def test_a_shift_of_a_third_of_the_noise_is_seen(self):
        for p in (two_samples.distribution_p, two_samples.rank_p):
            self.assertLess(p(self.pairs(1, 2000, 0.33), rounds=999), 0.005)

    def test_few_pairs_prove_little(self):
        clear = [(1.0, 2.0)] * 4  # two of sixteen exchanges are as clear
        for p in (two_samples.distribution_p, two_samples.rank_p):
            self.assertAlmostEqual(p(clear, rounds=9999), 2 / 16, delta=0.02)
            self.assertEqual(p([(1.0, 1.0)] * 8, rounds=99), 1)


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class SideChannel(unittest.TestCase):
    placement = ["--kv-cache-memory", "16MiB"]
    pairs = PAIRS

    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLAGS + cls.placement, key=f"{ALICE},{BOB}",
                            model=str(ROOT / "models" / "tiny-moe"))

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"exit code {code}:\n{cls.server.log_text()}"

    def caller(self, key, **fields):
        made = Caller(self.server, key, **fields)
        self.addCleanup(made.close)
        return made

    def test_another_key_learns_nothing(self):
        times, counts = probe(self.caller(ALICE), self.caller(BOB), self.pairs, 1)
        self.assertEqual(set(counts), {(0, 0)})
        p_values = told("another key", times)
        if TIMES_DECIDE:
            self.assertGreater(min(p_values), SIGNIFICANCE / 2)

    def test_the_same_key_is_seen_to_share(self):
        times, counts = probe(self.caller(ALICE), self.caller(ALICE), self.pairs // 4, 2)
        self.assertEqual(set(counts), {(PAGES * PAGE, 0)})
        p_values = told("the same key", times)
        if TIMES_DECIDE:
            self.assertLess(max(p_values), SIGNIFICANCE / 2)

    def test_another_salt_learns_nothing_and_what_is_not_cached_is_not_found(self):
        few = quick(12, 4)
        salt, none = {"cache_salt": "a"}, {"cache_prompt": False}
        for seed, (first, second) in enumerate((
                (salt, {"cache_salt": "b"}), (salt, {}), ({}, salt), (none, {}), ({}, none)), 10):
            with self.subTest(first=first, second=second):
                _, counts = probe(self.caller(ALICE, **first), self.caller(ALICE, **second), few,
                                  seed)
                self.assertEqual(set(counts), {(0, 0)})
        _, counts = probe(self.caller(ALICE, **salt), self.caller(ALICE, **salt), few, 3)
        self.assertEqual(set(counts), {(PAGES * PAGE, 0)})

    def pages_kept_of(self, prompt):
        """By how much the index grows when Bob asks."""
        def cached():
            wait_until(lambda: idle(self.server), "idle")
            return sum(value for name, value in metrics(self.server)[0].items()
                       if name.startswith("bulkhead_kv_pages") and 'state="cached"' in name)
        before = cached()
        self.caller(BOB).ask(prompt)
        return cached() - before

    def test_what_the_index_keeps_is_the_same_too(self):
        self.server.key = ALICE  # for the metrics
        rng = random.Random(5)
        for _ in range(quick(10, 3)):
            call(self.server, "POST", "/flush_cache", {},
                 headers_for(self.server, {"Authorization": "Bearer key-of-admin"}))
            asked, never = fresh_prompt(rng), fresh_prompt(rng)
            self.caller(ALICE).ask(asked)
            self.assertEqual([self.pages_kept_of(asked), self.pages_kept_of(never)],
                             [PAGES, PAGES])


    def compiled(self, caller, schema):
        """How many compilations an answer of that form takes."""
        def count():
            return metrics(self.server)[1]["bulkhead_constraint_compile_seconds_count"]
        before = count()
        caller.ask(fresh_prompt(random.Random(7)), response_format={
            "type": "json_schema", "json_schema": {"name": "form", "schema": schema}})
        return count() - before

    def test_a_compiled_schema_is_not_shared_either(self):
        self.server.key = ALICE
        schema = {"type": "object", "properties": {"code": {"enum": ["7K2Q", "9XYZ"]}}}
        alice, bob, salted = (self.caller(key, **fields) for key, fields in (
            (ALICE, {}), (BOB, {}), (ALICE, {"cache_salt": "a"})))
        for caller in (alice, bob, salted):
            self.assertEqual([self.compiled(caller, schema) for _ in range(2)], [1, 0])


class SplitSideChannel(SideChannel):
    placement = ["--placement", "split", "--prefill.kv-cache-memory", "12MiB",
                 "--decode.kv-cache-memory", "4MiB"]
    pairs = PAIRS if TIMES_DECIDE else quick(60, 10)


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class Order(unittest.TestCase):
    """Who came first is served first, whatever is cached."""

    def setUp(self):
        flags = ["--page-size", str(PAGE), "--kv-cache-memory", "16MiB",
                 "--max-running-requests", "1"]
        self.server = Server(flags, key=f"{ALICE},{BOB}", model=str(ROOT / "models" / "tiny-moe"))
        self.addCleanup(self.server.stop)
        self.server.key = ALICE

    def waiting(self, count):
        """Whether so many wait; not when the one that they wait for has ended by itself."""
        def seen():
            sums = metrics(self.server)[1]
            return (sums["vllm:num_requests_waiting"], sums["vllm:num_requests_running"])
        wait_until(lambda: seen()[0] == count or seen() == (0, 0), f"{count} wait")
        return seen()[0] == count

    def queue_up(self, key, prompts, sockets):
        self.server.key = key
        for number, prompt in enumerate(prompts):
            sockets.append(open_request(self.server, COMPLETIONS, prompt=prompt, max_tokens=1,
                                        request_id=f"number-{number}"))
            if not self.waiting(number + 1):
                return False
        return True

    def served(self, key, prompts):
        """The order in which prompts that queued up one after the other were answered; nothing
        when the request that held them back was too fast for that."""
        holder = open_request(self.server, COMPLETIONS, prompt="Hold", max_tokens=4000,
                              ignore_eos=True, stream=True)
        holder.recv(1)  # it runs
        sockets = []
        queued = self.queue_up(key, prompts, sockets)
        self.server.key = ALICE
        before = pathlib.Path(self.server.log_path).stat().st_size
        holder.close()
        wait_until(lambda: idle(self.server), "idle")
        for socket in sockets:
            socket.close()
        log = pathlib.Path(self.server.log_path).read_text(encoding="utf-8")[before:]
        order = [word for word in log.split() if word.startswith("request_id=number-")]
        return order if queued else None

    def order_of_fresh(self, key, cached, alice, rng):
        for _ in range(10):
            prompts = [fresh_prompt(rng) for _ in range(4)]
            for number in cached:
                alice.ask(prompts[number])
            order = self.served(key, prompts)
            if order is not None:
                return order
        self.fail("no request was slow enough to hold four back")

    def test_of_requests_that_queue_the_first_is_the_first(self):
        alice = Caller(self.server, ALICE)
        self.addCleanup(alice.close)
        for key in (BOB, ALICE):
            rng = random.Random(6)
            for cached in ((0, 3), (2, 3), (0, 1)):
                with self.subTest(key=key, cached=cached):
                    self.assertEqual(self.order_of_fresh(key, cached, alice, rng),
                                     [f"request_id=number-{number}" for number in range(4)])


if __name__ == "__main__":
    unittest.main()
