"""Failures that others had in public, by their number in docs/cases.md: requests and answers."""

import json
import signal
import socket
import struct
import threading
import unittest

from harness import (
    Case,
    Server,
    can_start_servers,
    chat,
    complete,
    idle,
    metrics,
    open_request,
    quick,
    stream,
    together,
    wait_until,
)
from test_lifecycle import OwnServer

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
CONTEXT = 128


def user(content):
    return [{"role": "user", "content": content}]


def leave(connection, how):
    """The client goes away: orderly, by reset, or by closing its sending side alone."""
    if how == "half-close":
        connection.shutdown(socket.SHUT_WR)
        return
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class SmallContext(OwnServer):
    flags = (
        *("--max-model-len", str(CONTEXT)),
        *("--chunked-prefill-size", "32"),
        *("--page-size", "16"),
        *("--max-running-requests", "4"),
    )

    def running(self):
        return metrics(self.server)[1]["vllm:num_requests_running"]

    # C135, C185
    def test_without_a_limit_an_answer_may_fill_the_context(self):
        for limits, expected in (
            ({}, None),
            ({"max_tokens": None}, None),
            ({"max_completion_tokens": None}, None),
            ({"max_tokens": None, "max_completion_tokens": None}, None),
            ({"max_tokens": 5}, 5),
            ({"max_completion_tokens": 5}, 5),
            ({"max_tokens": 9, "max_completion_tokens": 5}, 5),
        ):
            with self.subTest(**limits):
                answer = chat(self.server, "Go on.", ignore_eos=True, temperature=0, **limits)
                self.assertEqual(answer.status, 200, answer.body)
                left = CONTEXT - answer.usage["prompt_tokens"]
                self.assertEqual(answer.usage["completion_tokens"], expected or left)
                self.assertEqual(answer.choice["finish_reason"], "length")

    # C183
    def test_prompts_at_the_edge_of_the_context_are_answered_or_refused_with_numbers(self):
        for prompt in (CONTEXT - 2, CONTEXT - 1, CONTEXT, CONTEXT + 1, 10 * CONTEXT):
            for limit in (None, 1, 2):
                with self.subTest(prompt=prompt, max_tokens=limit):
                    answer = complete(self.server, [5] * prompt, max_tokens=limit, ignore_eos=True)
                    if prompt + (limit or 1) <= CONTEXT:
                        wanted = limit or min(16, CONTEXT - prompt)
                        self.assertEqual(answer.usage["completion_tokens"], wanted)
                    else:
                        self.assert_error(answer, 400, "context_length_exceeded")
                        self.assertIn(str(CONTEXT), answer.error["message"])
        self.assertEqual(complete(self.server, "next", max_tokens=1).status, 200)

    # C184
    def test_many_requests_over_the_limit_at_once_harm_nobody(self):
        asked = [20 + (CONTEXT - 21), 20 + (CONTEXT - 20), 20 + (CONTEXT - 19), 10 * CONTEXT]
        sizes = [asked[i % 4] for i in range(quick(24, 12))]
        jobs = [
            lambda size=size: complete(
                self.server, [5] * 20, max_tokens=size - 20, ignore_eos=True, temperature=0
            )
            for size in sizes
        ]
        for size, answer in zip(sizes, together(jobs, 16)):
            if size > CONTEXT:
                self.assert_error(answer, 400, "context_length_exceeded")
            else:
                self.assertEqual(answer.usage["completion_tokens"], size - 20)
        self.assertEqual(complete(self.server, "next", max_tokens=1).status, 200)

    # C051
    def test_an_answer_ends_at_the_context_and_leaves_nothing_behind(self):
        messages = [{"role": "system", "content": "Be brief."}, *user("Name a colour.")]
        first = chat(self.server, "", messages=messages, temperature=0, max_tokens=12)
        full = chat(
            self.server,
            "",
            messages=[messages[0], *user("Tell a story without an end.")],
            ignore_eos=True,
        )
        self.assertEqual(full.usage["total_tokens"], CONTEXT)
        self.assertEqual(full.choice["finish_reason"], "length")
        again = chat(self.server, "", messages=messages, temperature=0, max_tokens=12)
        self.assertEqual(again.text, first.text)

    # C186
    def test_a_stream_whose_client_leaves_frees_its_place_however_it_leaves(self):
        for how in ("close", "reset", "half-close"):
            for chunks in (0, 1, 5):
                with self.subTest(how=how, chunks=chunks):
                    wait_until(lambda: idle(self.server), "idle")
                    connection = open_request(
                        self.server, CHAT, messages=user("Story."), stream=True, ignore_eos=True
                    )
                    seen = b""
                    while seen.count(b"data: ") < chunks:
                        seen += connection.recv(4096)
                    leave(connection, how)
                    wait_until(lambda: idle(self.server), "its place and pages are free", 30)
                    connection.close()

    # C187
    def test_silent_departures_leave_every_place_usable(self):
        for i in range(quick(24, 8)):
            connection = open_request(
                self.server, CHAT, messages=user(f"Story {i}."), ignore_eos=True
            )
            wait_until(lambda: self.running() == 1, "the request runs")
            leave(connection, "reset" if i % 2 else "close")
            wait_until(lambda: idle(self.server), "its place is free", 30)
        # Four at once fill all four places and are all answered.
        full = threading.Event()

        def watch():
            wait_until(lambda: self.running() == 4, "four run at once")
            full.set()

        jobs = [
            lambda: chat(self.server, "Count.", ignore_eos=True, max_tokens=90, temperature=0)
        ] * 12
        answers = together([*jobs, watch], 13)[:12]
        self.assertTrue(full.is_set())
        self.assertEqual([answer.status for answer in answers], [200] * 12)


class TinyQueue(OwnServer):
    flags = ("--max-running-requests", "2", "--max-queued-requests", "6")

    # C100, C101
    def test_every_one_of_many_requests_gets_exactly_one_answer(self):
        count = quick(120, 40)
        jobs = [lambda: complete(self.server, "one", max_tokens=3, ignore_eos=True)] * count
        answers = together(jobs, count)
        self.assertEqual(len(answers), count)
        for answer in answers:
            if answer.status == 200:
                self.assertEqual(answer.usage["completion_tokens"], 3)
            else:
                self.assert_error(answer, 429, "queue_full")
                self.assertGreater(int(answer.headers["retry-after"]), 0)
        self.assertIn(429, {answer.status for answer in answers})
        self.assertIn(200, {answer.status for answer in answers})
        wait_until(lambda: idle(self.server), "idle again")
        self.assertEqual(complete(self.server, "again", max_tokens=1).status, 200)


class Texts(Case):
    # C108
    def test_hostile_texts_are_refused_while_an_honest_stream_goes_on(self):
        fields = {"prompt": "The quick brown fox", "temperature": 0, "max_tokens": 12}
        expected = complete(self.server, **fields).text
        size = 1_000_000
        hostile = ["." * size, "a" * size, " " * size, "\U0001f600" * (size // 4), "_" * size]
        jobs = [lambda text=text: complete(self.server, text).status for text in hostile]
        jobs.append(lambda: stream(self.server, COMPLETIONS, **fields).text)
        *refused, text = together(jobs, 6)
        self.assertTrue(set(refused) <= {400, 413}, refused)
        self.assertEqual(text, expected)

    # C151
    def test_characters_of_many_tokens_come_whole_in_a_batch_and_in_a_stream(self):
        prompts = ["\U0001f642\U0001f643", "你好世界", "e\u0301a\u0300", "👨‍👩‍👧"]
        prompts += ["naïve é", "Ω≈ç√", "한국어", "🇩🇪"]
        asked = [
            {"prompt": text * 3, "temperature": 1.2, "seed": i, "max_tokens": 16}
            for i, text in enumerate(prompts)
        ]
        alone = [complete(self.server, **fields).text for fields in asked]
        batch = together(
            [lambda fields=fields: complete(self.server, **fields).text for fields in asked], 8
        )
        streams = together(
            [lambda f=fields: stream(self.server, COMPLETIONS, **f).text for fields in asked], 8
        )
        self.assertEqual(batch, alone)
        self.assertEqual(streams, alone)


class Sampling(Case):
    # C162
    def test_log_probabilities_are_finite_numbers_at_every_extreme(self):
        def refuse(name):
            raise AssertionError(f"{name} is no JSON")

        for fields in (
            {"top_k": 1},
            {"top_p": 0.01},
            {"min_p": 1.0},
            {"temperature": 0},
            {"temperature": 2},
            {"logit_bias": {str(token): -100 for token in range(40)}},
            {"logit_bias": {"100": 100}, "repetition_penalty": 2, "frequency_penalty": 2},
        ):
            with self.subTest(**fields):
                answer = chat(
                    self.server, "Hi", logprobs=True, top_logprobs=20, max_tokens=3, **fields
                )
                self.assertEqual(answer.status, 200, answer.body)
                body = json.loads(answer.body, parse_constant=refuse)
                for record in body["choices"][0]["logprobs"]["content"]:
                    self.assertEqual(len(record["top_logprobs"]), 20)
                    for one in [record, *record["top_logprobs"]]:
                        self.assertLessEqual(one["logprob"], 0)

    # C168
    def test_no_hidden_default_makes_sampling_greedy(self):
        texts = {
            complete(self.server, "My favourite", temperature=2, max_tokens=3).text
            for _ in range(quick(20, 8))
        }
        self.assertGreater(len(texts), 5)


class Counting(Case):
    # C196, C197
    def test_every_counter_agrees_whatever_the_ends_were(self):
        wait_until(lambda: idle(self.server), "idle before")
        before, sums_before = metrics(self.server)
        stop = {"temperature": 0, "max_tokens": 30, "stop": " "}
        jobs = [lambda: complete(self.server, "One two three", **stop)] * 2
        jobs += [lambda: complete(self.server, "One", max_tokens=4, ignore_eos=True)] * 3
        together(jobs, 5)
        for i in range(4):
            connection = open_request(
                self.server, CHAT, messages=user(f"{i}"), stream=True, ignore_eos=True
            )
            connection.recv(1)
            connection.close()
            wait_until(lambda: idle(self.server), "gauges fall without another request", 30)
        after, sums_after = metrics(self.server)
        gained = {name: sums_after[name] - sums_before[name] for name in sums_after}

        def ended(reason):
            return sum(
                after[name] - before.get(name, 0)
                for name in after
                if name.startswith("vllm:request_success_total")
                and f'finished_reason="{reason}"' in name
            )

        self.assertEqual((ended("stop"), ended("length"), ended("abort")), (2, 3, 4))
        for name in (
            "vllm:request_success_total",
            "vllm:e2e_request_latency_seconds_count",
            "vllm:request_prompt_tokens_count",
            "vllm:request_generation_tokens_count",
        ):
            self.assertEqual(gained[name], 9, name)
        self.assertEqual(
            gained["vllm:generation_tokens_total"], gained["vllm:request_generation_tokens_sum"]
        )
        self.assertEqual(
            gained["vllm:prompt_tokens_total"], gained["vllm:request_prompt_tokens_sum"]
        )


class Draining(unittest.TestCase):
    def setUp(self):
        if not can_start_servers():
            self.skipTest("needs the binary and the model to start a server of its own")

    # C203
    def test_the_end_of_the_grace_ends_what_runs_with_an_error_event(self):
        server = Server(["--drain-timeout", "2"])
        refused = []

        def run():
            return stream(server, CHAT, messages=user("Story."), ignore_eos=True)

        def end_it():
            wait_until(
                lambda: metrics(server)[1]["vllm:num_requests_running"] == 1, "the request runs"
            )
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: self.refuses(server, refused), "new requests are refused")

        result, _ = together([run, end_it], 2)
        self.assertEqual(server.stop(), 0, server.log_text())
        self.assertEqual([answer.status for answer in refused], [503])
        self.assertFalse(result.done)
        self.assertIsNone(result.finish_reason)
        self.assertTrue(result.error["message"])

    @staticmethod
    def refuses(server, refused):
        answer = complete(server, "more", max_tokens=1)
        if answer.status == 200:
            return False
        refused.append(answer)
        return True
