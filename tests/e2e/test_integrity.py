"""Page integrity: faults injected into a running server, on a real model."""

import json
import pathlib
import unittest

import harness
from harness import (
    Case,
    Server,
    call,
    can_start_servers,
    complete,
    headers_for,
    metrics,
    open_request,
    quick,
    together,
    wait_until,
)

COMPLETIONS = "/v1/completions"
PROMPTS = [
    f"{number} things to know about {topic}: " + "first of all, "
    for number, topic in enumerate(("rivers", "trains", "bread", "clouds", "chess", "salt"), 2)
]
LENGTH = quick(60, 30)  # so that every request reads several pages of 16
# What a check of tags, labels and ids sees, in the step that is about to read.
SEEN_AT_ONCE = (
    "stale_mapping",
    "overwritten_entry",
    "out_of_range_id",
    "wrong_order",
    "tag_flip",
    "wrong_label",
)
# What has no effect before somebody takes the page.
SEEN_LATER = ("double_allocation", "missed_reference")


def greedy(server, prompt, **fields):
    return complete(
        server, prompt, max_tokens=LENGTH, temperature=0, ignore_eos=True, **fields
    )


def integrity(server):
    return call(server, "GET", "/v1/integrity").json()


def mismatches(server, kind=None):
    return sum(
        number
        for pool in integrity(server)["pools"]
        for name, number in pool["mismatches"].items()
        if kind in (None, name)
    )


class Modes(Case):
    """The server that all tests share watches nothing."""

    def test_answers_say_the_mode(self):
        answer = complete(self.server, "hi", max_tokens=1)
        self.assertEqual(answer.headers["x-kv-integrity"], "off")
        self.assertEqual(integrity(self.server)["mode"], "off")
        self.assertFalse(integrity(self.server)["faults"]["enabled"])

    def test_who_requires_more_is_refused(self):
        for value, status, code in (
            ("abort", 412, "integrity_not_available"),
            ("observe", 412, "integrity_not_available"),
            ("strict", 400, "invalid_value"),
        ):
            answer = call(
                self.server,
                "POST",
                COMPLETIONS,
                {"prompt": "hi", "max_tokens": 1},
                headers=headers_for(self.server, {"X-Require-Integrity": value}),
            )
            self.assert_error(answer, status, code, "X-Require-Integrity")
        answer = call(
            self.server,
            "POST",
            COMPLETIONS,
            {"prompt": "hi", "max_tokens": 1},
            headers=headers_for(self.server, {"X-Require-Integrity": "off"}),
        )
        self.assertEqual(answer.status, 200)

    def test_nobody_can_damage_it(self):
        answer = call(self.server, "POST", "/v1/integrity/faults", {"fault": "tag_flip"})
        self.assert_error(answer, 501, "not_implemented")


class OwnServer(Case):
    flags = ()

    @classmethod
    def setUpClass(cls):
        if not can_start_servers():
            raise unittest.SkipTest("needs the binary and the model to start a server of its own")
        cls.server = Server((*cls.flags, "--page-size", "16"))
        cls.alone = [greedy(cls.server, prompt).text for prompt in PROMPTS]

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"exit code {code}:\n{cls.server.log_text()}"

    def order(self, fault, pool=None):
        answer = call(
            self.server, "POST", "/v1/integrity/faults", {"fault": fault, "pool": pool}
        )
        self.assertEqual(answer.status, 200, answer.body)

    def run_damaged(self, fault, pool=None):
        """All prompts at once with the fault among them: how many were ended by it."""
        before = len(integrity(self.server)["faults"]["done"])
        self.order(fault, pool)
        jobs = [lambda prompt=prompt: greedy(self.server, prompt) for prompt in PROMPTS]
        ended = 0
        for answer, expected in zip(together(jobs, len(jobs)), self.alone):
            if answer.status == 200:
                self.assertEqual(answer.text, expected)
                continue
            ended += 1
            self.assert_error(answer, 503, "kv_integrity")
            self.assertTrue(answer.error["retriable"])
            self.assertEqual(answer.headers["x-should-retry"], "true")
        self.assertEqual(len(integrity(self.server)["faults"]["done"]), before + 1)
        return ended

    def assert_whole(self):
        """Everybody is served, rightly, and nothing is held."""
        self.assertEqual([greedy(self.server, prompt).text for prompt in PROMPTS], self.alone)
        wait_until(lambda: harness.idle(self.server), "idle")
        samples, _ = metrics(self.server)
        for name, value in samples.items():
            if name.startswith("bulkhead_kv_pages") and 'state="used"' in name:
                self.assertEqual(value, 0, name)


class Abort(OwnServer):
    flags = ("--kv-integrity", "abort", "--inject-faults", "--log-format", "json")

    def test_clean_traffic_is_never_suspected(self):
        jobs = [lambda prompt=prompt: greedy(self.server, prompt) for prompt in PROMPTS * 2]
        before = mismatches(self.server)
        texts = [answer.text for answer in together(jobs, 8)]
        self.assertEqual(texts, self.alone * 2)
        self.assertEqual(mismatches(self.server), before)
        self.assertGreater(integrity(self.server)["pools"][0]["pages_checked"], 100)

    def test_faults_end_whom_they_hit_and_nobody_else(self):
        for fault in SEEN_AT_ONCE:
            with self.subTest(fault=fault):
                before = mismatches(self.server)
                self.assertGreater(self.run_damaged(fault), 0)
                self.assertGreater(mismatches(self.server), before)
                self.assert_whole()

    def test_faults_that_take_effect_later_are_noticed_too(self):
        for fault in SEEN_LATER:
            with self.subTest(fault=fault):
                before = mismatches(self.server)
                self.run_damaged(fault)
                self.assert_whole()
                self.assertGreater(mismatches(self.server), before)

    def test_a_stream_that_began_ends_with_the_error_and_without_done(self):
        connection = open_request(
            self.server,
            COMPLETIONS,
            prompt="Once upon a time",
            max_tokens=quick(400, 120),
            ignore_eos=True,
            stream=True,
        )
        received = b""
        while b"data: " not in received:
            received += connection.recv(4096)
        self.order("tag_flip")
        while not received.endswith(b"0\r\n\r\n"):
            piece = connection.recv(65536)
            self.assertTrue(piece, "the stream ended without its end")
            received += piece
        connection.close()
        text = received.decode()
        self.assertIn("x-kv-integrity: abort", text.lower())
        self.assertIn('"code":"kv_integrity"', text)
        self.assertNotIn("[DONE]", text)
        self.assertNotIn('"finish_reason":"stop"', text)
        self.assert_whole()

    def test_a_flipped_bit_in_a_cached_page_is_found_at_rest(self):
        prompt = "The quick brown fox jumps over the lazy dog. " * 40
        first = greedy(self.server, prompt).text
        self.order("page_flip")
        complete(self.server, "hi", max_tokens=2)
        wait_until(lambda: mismatches(self.server, "digest") > 0, "the scrubber came by")
        self.assertEqual(greedy(self.server, prompt).text, first)
        self.assert_whole()

    def test_what_happened_is_told(self):
        self.run_damaged("wrong_order")
        report = integrity(self.server)
        self.assertEqual(report["mode"], "abort")
        (pool,) = report["pools"]
        self.assertEqual((pool["name"], pool["mode"]), ("shared", "abort"))
        event = pool["events"][-1]
        self.assertEqual((event["kind"], event["phase"]), ("tag", "before"))
        self.assertNotEqual(event["found"]["page"], event["expected"]["page"])
        self.assertTrue(any(moment.startswith("allocated") for moment in event["history"]))
        self.assertTrue(pool["quarantined_pages"])
        _, sums = metrics(self.server)
        self.assertEqual(
            sums["bulkhead_kv_integrity_quarantined_pages"], len(pool["quarantined_pages"])
        )
        self.assertEqual(
            sums["bulkhead_kv_integrity_mismatches_total"], sum(pool["mismatches"].values())
        )
        log = pathlib.Path(self.server.log_path).read_text(encoding="utf-8")
        lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        told = [line for line in lines if line["message"] == "page integrity"]
        self.assertTrue(told)
        self.assertIn("allocated", told[-1]["history"])
        self.assertIn("server under test", log)

    def test_names_that_are_none_are_refused(self):
        for body, param in (
            ({}, "fault"),
            ({"fault": 3}, "fault"),
            ({"fault": "earthquake"}, "fault"),
            ({"fault": "tag_flip", "pool": "cellar"}, "pool"),
        ):
            answer = call(self.server, "POST", "/v1/integrity/faults", body)
            self.assertEqual(answer.status, 400, answer.body)
            self.assertEqual(answer.error["param"], param)

    def test_who_requires_it_is_served(self):
        answer = call(
            self.server,
            "POST",
            COMPLETIONS,
            {"prompt": "hi", "max_tokens": 1},
            headers=headers_for(self.server, {"X-Require-Integrity": "abort"}),
        )
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.headers["x-kv-integrity"], "abort")


class Split(OwnServer):
    flags = (
        "--placement",
        "split",
        "--context-length",
        "512",
        "--decode.kv",
        "fp8_e4m3",
        "--prefill.kv-cache-memory",
        "64M",
        "--decode.kv-cache-memory",
        "64M",
        "--kv-integrity",
        "abort",
        "--decode.kv-integrity",
        "observe",
        "--inject-faults",
    )

    def test_each_pool_has_its_mode_and_the_least_is_the_servers(self):
        report = integrity(self.server)
        modes = {pool["name"]: pool["mode"] for pool in report["pools"]}
        self.assertEqual(modes, {"prefill": "abort", "decode": "observe"})
        self.assertEqual(report["mode"], "observe")
        self.assertEqual(complete(self.server, "hi", max_tokens=1).headers["x-kv-integrity"],
                         "observe")

    def test_faults_of_prefills_pages_end_whom_they_hit(self):
        for fault in ("out_of_range_id", "tag_flip", "wrong_label"):
            with self.subTest(fault=fault):
                before = mismatches(self.server)
                self.run_damaged(fault, "prefill")
                self.assertGreater(mismatches(self.server), before)
                self.assert_whole()

    def test_decode_observes_and_goes_on(self):
        before = mismatches(self.server, "label")
        # Only the books are wrong, so the answers are right.
        self.assertEqual(self.run_damaged("wrong_label", "decode"), 0)
        self.assertGreater(mismatches(self.server, "label"), before)


class Exposed(unittest.TestCase):
    def test_a_server_that_can_be_damaged_stays_on_loopback(self):
        if not can_start_servers():
            self.skipTest("needs the binary and the model")
        with self.assertRaises(RuntimeError) as raised:
            Server(("--inject-faults", "--host", "0.0.0.0"), key="key")
        self.assertIn("--inject-faults", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
