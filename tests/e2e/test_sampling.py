"""What sampling parameters do to a real model's answers."""

from harness import Case, chat, complete, quick, stream, together

PROMPT = "The three most important things in life are"


class Seeds(Case):
    def ask(self, **fields):
        return complete(self.server, PROMPT, temperature=1.0, max_tokens=16, **fields).text

    # C165
    def test_the_same_seed_gives_the_same_text_alone_and_among_others(self):
        alone = self.ask(seed=7)
        self.assertEqual(self.ask(seed=7), alone)
        answers = together(
            [lambda seed=seed: self.ask(seed=seed) for seed in [7, 1, 2, 7, 3, 4, 7, 5]], 8
        )
        self.assertEqual([answers[0], answers[3], answers[6]], [alone] * 3)
        self.assertGreater(len(set(answers)), 3, "other seeds give other texts")

    # C164
    def test_no_seed_is_a_fresh_one_and_zero_is_a_value(self):
        self.assertGreater(len({self.ask() for _ in range(4)}), 1)
        self.assertEqual(self.ask(seed=0), self.ask(seed=0))
        self.assertEqual(self.ask(seed=-(2**63)), self.ask(seed=-(2**63)))


class Truncation(Case):
    def test_one_candidate_is_greedy(self):
        greedy = complete(self.server, PROMPT, temperature=0, max_tokens=16).text
        for fields in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"temperature": 1e-9}):
            with self.subTest(**fields):
                sent = {"temperature": 1.5, "seed": 3, **fields}
                self.assertEqual(complete(self.server, PROMPT, max_tokens=16, **sent).text, greedy)


class Penalties(Case):
    def ask(self, **fields):
        # The model goes on with zeros, so that every penalty has something to act on.
        return complete(
            self.server, " ".join("0" * 12), temperature=0, max_tokens=16, ignore_eos=True, **fields
        ).text

    def test_each_penalty_changes_a_repetitive_answer(self):
        plain = self.ask()
        for fields in (
            {"repetition_penalty": 1.8},
            {"frequency_penalty": 2.0},
            {"presence_penalty": 2.0},
        ):
            with self.subTest(**fields):
                text = self.ask(**fields)
                self.assertNotEqual(text, plain)
                self.assertEqual(self.ask(**fields), text, "still deterministic")
        self.assertEqual(
            self.ask(frequency_penalty=0, presence_penalty=0, repetition_penalty=1), plain
        )

    def test_a_bias_forces_and_forbids_a_token(self):
        def tokens(bias):
            answer = complete(
                self.server,
                PROMPT,
                temperature=0,
                max_tokens=4,
                logprobs=0,
                logit_bias=bias,
                ignore_eos=True,
            )
            return answer.choice["logprobs"]["tokens"]

        forced = tokens({"100": 100})
        self.assertEqual((len(forced), len(set(forced))), (4, 1))
        self.assertNotIn(forced[0], tokens({"100": -100, "101": 100}))


class StopStrings(Case):
    # C159
    def test_text_ends_before_the_stop_string_on_every_route(self):
        question = "Write two sentences about the sea."
        for route, fields in (
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": question}]}),
            ("/v1/completions", {"prompt": PROMPT}),
        ):
            sent = {**fields, "temperature": 0, "max_tokens": 40}
            whole = stream(self.server, route, **sent).text
            self.assertGreater(len(whole), 24)
            for start, length in ((9, 14), (12, 5), (10, 1))[: quick(3, 1)]:
                stop = whole[start : start + length]
                cut = whole[: whole.find(stop)]
                with self.subTest(route=route, stop=stop):
                    plain = (
                        chat(self.server, question, temperature=0, max_tokens=40, stop=stop)
                        if "messages" in fields
                        else complete(
                            self.server,
                            PROMPT,
                            temperature=0,
                            max_tokens=40,
                            stop=[stop, "\u0000never"],
                        )
                    )
                    self.assertEqual(plain.text, cut)
                    self.assertEqual(
                        (plain.choice["finish_reason"], plain.choice["stop_reason"]), ("stop", stop)
                    )
                    streamed = stream(
                        self.server,
                        route,
                        **sent,
                        stop=stop,
                        stream_options={"include_usage": True},
                    )
                    self.assertEqual(
                        (streamed.text, streamed.finish_reason, streamed.stop_reason),
                        (cut, "stop", stop),
                    )
                    self.assertEqual(streamed.usage, plain.usage)
                    kept = stream(
                        self.server, route, **sent, stop=stop, include_stop_str_in_output=True
                    )
                    self.assertEqual(kept.text, cut + stop)

    # C160
    def test_text_held_back_at_the_end_comes_out(self):
        whole = complete(self.server, PROMPT, temperature=0, max_tokens=8).text
        stop = whole[-3:] + "\u0001"
        answer = complete(self.server, PROMPT, temperature=0, max_tokens=8, stop=stop)
        self.assertEqual((answer.text, answer.choice["finish_reason"]), (whole, "length"))
