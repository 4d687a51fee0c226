"""The cache far too small for its load: reuse, preemption and cancellation change no answer."""

from harness import call, complete, idle, metrics, open_request, quick, together, wait_until
from test_lifecycle import OwnServer

COMPLETIONS = "/v1/completions"
STORY = "Once upon a time, in a small village by the sea, there lived a clockmaker. "


def bodies(count):
    """Requests of four families that begin alike; some draw, some give several answers."""
    made = []
    for i in range(count):
        shared = STORY * (1 + i % 4)
        body = {
            "prompt": f"{shared}Chapter {i}.",
            "max_tokens": 24 + i % quick(40, 8),
            "ignore_eos": True,
            "temperature": 0 if i % 3 else 0.8,
            "seed": i,
            "logprobs": 1,
        }
        if i % 8 == 7:
            body["n"] = 2
        made.append(body)
    return made


def content(answer):
    """What must be the same, bit for bit: texts, ends and log-probabilities of every choice."""
    return [
        (choice["index"], choice["text"], choice["finish_reason"], choice["logprobs"])
        for choice in answer.json()["choices"]
    ]


class Pressure(OwnServer):
    # 68 pages (34) of 16 tokens of 22.5 KiB: a request needs up to ten, and 64 (16) want to run.
    flags = ("--context-length", "512", "--kv-cache-memory",
             quick("24MiB", "12MiB"), "--page-size", "16")

    def test_answers_under_pressure_are_those_of_lone_requests(self):
        asked = bodies(quick(64, 16))
        lone = [call(self.server, "POST", COMPLETIONS, body) for body in asked]
        self.assertEqual({answer.status for answer in lone}, {200}, lone[0].body)
        for _ in range(quick(2, 1)):
            crowd = together(
                [lambda body=body: call(self.server, "POST", COMPLETIONS, body) for body in asked],
                len(asked),
            )
            for body, alone, among in zip(asked, lone, crowd):
                self.assertEqual(among.status, 200, among.body)
                self.assertEqual(content(among), content(alone), body["prompt"][-20:])
        _, sums = metrics(self.server)
        self.assertGreater(sums["vllm:num_preemptions_total"], 0, "the cache was too small for all")
        wait_until(lambda: idle(self.server), "pages and gauges back")

    def test_requests_left_unread_give_everything_back(self):
        asked = bodies(quick(40, 12))
        for round_ in range(3):
            sockets = [
                open_request(self.server, COMPLETIONS, stream=True, **body) for body in asked
            ]
            for number, connection in enumerate(sockets):
                if (number + round_) % 3:
                    connection.recv(1)  # the answer has begun
                connection.close()
        wait_until(lambda: idle(self.server), "pages and gauges back")
        self.assertEqual(complete(self.server, "Hello", max_tokens=2).status, 200)

    def test_a_hit_is_counted_and_says_the_same(self):
        body = {"prompt": STORY * 8, "max_tokens": 8, "temperature": 0, "logprobs": 1}
        first = call(self.server, "POST", COMPLETIONS, {**body, "cache_salt": "a hit is counted"})
        again = call(self.server, "POST", COMPLETIONS, {**body, "cache_salt": "a hit is counted"})
        other = call(self.server, "POST", COMPLETIONS, {**body, "cache_salt": "somebody else"})
        cached = [
            answer.usage["prompt_tokens_details"]["cached_tokens"]
            for answer in (first, again, other)
        ]
        self.assertEqual((cached[0], cached[2]), (0, 0))
        self.assertEqual(cached[1], (first.usage["prompt_tokens"] - 1) // 16 * 16)
        self.assertEqual(content(again), content(first))
        self.assertEqual(content(other), content(first))
