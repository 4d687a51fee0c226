"""The standing oracles: SOLO, FOLD, CONSERVE, ALIVE."""

from harness import (
    Case,
    call,
    chat,
    complete,
    headers_for,
    idle,
    metrics,
    open_request,
    quick,
    stream,
    together,
    wait_until,
)

CHAT = "/v1/chat/completions"
TOPICS = ["the sea", "bread", "a clock", "mountains", "music", "rain", "a library", "trains"]


def requests_of_many_kinds(count):
    """Prompts of 20 to 1000 tokens, answers of 4 to 24: prefill chunks and decode steps mix."""
    longest = quick(40, 6)
    bodies = []
    for i in range(count):
        filler = " ".join(
            f"Note {k}: {TOPICS[(i + k) % len(TOPICS)]}." for k in range((i % 4) * longest)
        )
        content = f"{filler} Tell me about {TOPICS[i % len(TOPICS)]}, number {i}."
        bodies.append(
            {
                "messages": [{"role": "user", "content": content}],
                "temperature": 0,
                "max_tokens": 4 + i % quick(21, 5),
            }
        )
    return bodies


class Solo(Case):
    def test_32_concurrent_answers_are_byte_equal_to_lone_ones(self):
        bodies = requests_of_many_kinds(quick(32, 12))
        lone = [call(self.server, "POST", CHAT, body) for body in bodies]
        self.assertEqual({answer.status for answer in lone}, {200})
        jobs = [lambda body=body: call(self.server, "POST", CHAT, body) for body in bodies]
        crowd = together(jobs, 32)
        for body, alone, among in zip(bodies, lone, crowd):
            self.assertEqual(among.status, 200, among.body)
            self.assertEqual(
                among.text.encode(), alone.text.encode(), body["messages"][0]["content"][-40:]
            )
            self.assertEqual(among.choice["finish_reason"], alone.choice["finish_reason"])
            self.assertEqual(among.usage["completion_tokens"], alone.usage["completion_tokens"])
        self.assertGreater(
            len({answer.text for answer in lone}), len(bodies) // 2, "the requests do differ"
        )


class Fold(Case):
    def test_joined_streams_are_the_whole_answers(self):
        prompts = [
            "Write emoji for: cat, dog, sun.",
            "Schreib einen Satz auf Deutsch.",
            "Say hello in Chinese, 你好.",
            "List: 1.",
        ]
        for prompt in prompts[: quick(4, 2)]:
            whole = chat(self.server, prompt, temperature=0, max_tokens=24)
            streamed = stream(
                self.server,
                CHAT,
                messages=[{"role": "user", "content": prompt}],
                temperature=0,
                max_tokens=24,
                stream_options={"include_usage": True},
            )
            with self.subTest(prompt=prompt):
                self.assertTrue(streamed.done)
                self.assertEqual(streamed.text, whole.text)
                self.assertEqual(streamed.finish_reason, whole.choice["finish_reason"])
                self.assertEqual(
                    streamed.usage["completion_tokens"], whole.usage["completion_tokens"]
                )
                self.assertEqual(streamed.usage["prompt_tokens"], whole.usage["prompt_tokens"])

    def test_token_by_token_characters_come_whole(self):
        for seed in range(quick(4, 1)):
            fields = {
                "prompt": "🙂🙃😀 你好世界 ",
                "temperature": 1.5,
                "seed": seed,
                "max_tokens": 24,
            }
            whole = complete(
                self.server, fields["prompt"], **{k: v for k, v in fields.items() if k != "prompt"}
            )
            self.assertEqual(stream(self.server, "/v1/completions", **fields).text, whole.text)


class Conserve(Case):
    def test_after_a_load_everything_is_accounted_for(self):
        wait_until(lambda: idle(self.server), "idle before the load")
        _, before = metrics(self.server)
        bodies = requests_of_many_kinds(quick(12, 4))
        jobs = [lambda body=body: call(self.server, "POST", CHAT, body) for body in bodies]
        jobs += [
            lambda: complete(
                self.server, "One two three four five", temperature=0, max_tokens=30, stop=" "
            )
        ] * 2
        answers = together(jobs, 14)
        wait_until(lambda: idle(self.server), "no running or waiting request, every page free")
        _, after = metrics(self.server)
        gained = {name: after[name] - before[name] for name in after}
        self.assertEqual(
            gained["vllm:prompt_tokens_total"], sum(a.usage["prompt_tokens"] for a in answers)
        )
        self.assertEqual(
            gained["vllm:generation_tokens_total"],
            sum(a.usage["completion_tokens"] for a in answers),
        )
        for name in (
            "vllm:request_success_total",
            "vllm:e2e_request_latency_seconds_count",
            "vllm:time_to_first_token_seconds_count",
            "vllm:request_prompt_tokens_count",
        ):
            self.assertEqual(gained[name], len(answers), name)


class Alive(Case):
    def running(self):
        return metrics(self.server)[1]["vllm:num_requests_running"]

    # C197
    def test_a_client_that_leaves_frees_its_place_in_both_modes(self):
        body = {
            "messages": [{"role": "user", "content": "Tell me a very long story."}],
            "ignore_eos": True,
            "max_tokens": 1500,
        }
        for streamed in (True, False):
            with self.subTest(stream=streamed):
                wait_until(lambda: idle(self.server), "idle")
                connection = open_request(self.server, CHAT, **body, stream=streamed)
                wait_until(lambda: self.running() == 1, "the request runs")
                if streamed:
                    self.assertTrue(connection.recv(1), "the stream has begun")
                connection.close()
                wait_until(lambda: idle(self.server), "the place and its pages are free again", 30)
                self.assertEqual(complete(self.server, "next", max_tokens=2).status, 200)

    def test_a_storm_of_clients_that_leave_harms_nobody(self):
        expected = complete(self.server, "The quick brown fox", temperature=0, max_tokens=12).text

        def leave(i):
            connection = open_request(
                self.server,
                CHAT,
                messages=[{"role": "user", "content": f"story {i}"}],
                stream=i % 2 == 0,
                max_tokens=200,
            )
            if i % 3 == 0:
                connection.recv(1)
            connection.close()

        jobs = []
        for i in range(quick(40, 16)):
            jobs.append(lambda i=i: leave(i))
            if i % 8 == 0:
                jobs.append(
                    lambda: (
                        complete(
                            self.server, "The quick brown fox", temperature=0, max_tokens=12
                        ).text
                    )
                )
        texts = [result for result in together(jobs, 8) if result is not None]
        self.assertEqual(texts, [expected] * quick(5, 2))
        wait_until(lambda: idle(self.server), "everything is free again")

    # C194
    def test_the_same_client_request_id_does_not_cross_answers(self):
        texts = [
            complete(self.server, f"{i} {i} {i}", temperature=0, max_tokens=6).text
            for i in range(8)
        ]
        headers = headers_for(self.server, {"x-request-id": "constant"})
        jobs = [
            lambda i=i: (
                call(
                    self.server,
                    "POST",
                    "/v1/completions",
                    {"prompt": f"{i} {i} {i}", "temperature": 0, "max_tokens": 6},
                    headers=headers,
                ).text
            )
            for i in range(8)
        ]
        self.assertEqual(together(jobs, 8), texts)
