"""Failures that others had with cached prompts and with several answers to one, by their number in
docs/cases.md."""

from harness import (
    Case,
    call,
    complete,
    headers_for,
    idle,
    metrics,
    quick,
    stream,
    together,
    wait_until,
)
from test_lifecycle import OwnServer

COMPLETIONS = "/v1/completions"
LONG = " ".join(f"Item {i} lies on shelf {i * 7 % 31}." for i in range(quick(24, 12)))


def cached_tokens(answer):
    return answer.usage["prompt_tokens_details"]["cached_tokens"]


class Hits(Case):
    # C058, C071, C085
    def test_a_hit_gives_the_text_of_a_miss_and_never_all_of_the_prompt(self):
        for i, tail in enumerate(("", " Go on", " Go on, please, and do not stop now.")):
            prompt = f"{i} {LONG}{tail}"
            first = complete(self.server, prompt, temperature=0, max_tokens=12)
            for _ in range(2):
                again = complete(self.server, prompt, temperature=0, max_tokens=12)
                self.assertEqual(again.text, first.text)
                self.assertGreater(cached_tokens(again), 0)
                self.assertLess(cached_tokens(again), again.usage["prompt_tokens"])
            self.assertEqual(first.usage["prompt_tokens"], again.usage["prompt_tokens"])


class Tenants(OwnServer):
    key = "key-of-alice,key-of-bob"  # two keys

    def ask(self, key, prompt, **fields):
        answer = call(
            self.server,
            "POST",
            COMPLETIONS,
            {"prompt": prompt, "max_tokens": 2, "temperature": 0, **fields},
            headers=headers_for(self.server, {"Authorization": f"Bearer {key}"}),
        )
        self.assertEqual(answer.status, 200, answer.body)
        return cached_tokens(answer)

    # C070
    def test_a_salt_never_opens_another_keys_prompts(self):
        alice, bob = "key-of-alice", "key-of-bob"
        self.assertEqual(self.ask(alice, LONG), 0)
        self.assertGreater(self.ask(alice, LONG), 0, "her own prompt is found")
        self.assertEqual(self.ask(bob, LONG), 0, "and nobody else's")
        self.assertEqual(self.ask(alice, LONG, cache_salt="s"), 0, "a salt only narrows")
        self.assertGreater(self.ask(alice, LONG, cache_salt="s"), 0)
        self.assertEqual(self.ask(bob, LONG, cache_salt="s"), 0)
        self.assertEqual(self.ask(bob, LONG, cache_salt=alice), 0)
        self.assertGreater(self.ask(bob, LONG), 0, "bob's own prompt is found")


class Choices(Case):
    def ask(self, **fields):
        sent = {"prompt": "My favourite animal is", "temperature": 1.0, "max_tokens": 10, **fields}
        return call(self.server, "POST", COMPLETIONS, sent)

    @staticmethod
    def texts(answer):
        return [choice["text"] for choice in answer.json()["choices"]]

    # C163
    def test_choices_of_one_seed_differ_repeat_and_do_not_depend_on_their_number(self):
        four = self.ask(n=4, seed=7, ignore_eos=True)
        self.assertEqual(len(set(self.texts(four))), 4)
        self.assertEqual(four.usage["completion_tokens"], 40)
        self.assertEqual(self.texts(self.ask(n=4, seed=7, ignore_eos=True)), self.texts(four))
        self.assertEqual(self.texts(self.ask(n=2, seed=7, ignore_eos=True)), self.texts(four)[:2])
        self.assertEqual(self.texts(self.ask(seed=7, ignore_eos=True)), self.texts(four)[:1])

    # C163
    def test_a_stream_delivers_every_choice_whenever_it_ends(self):
        fields = {"n": 4, "seed": 7, "max_tokens": 24, "stop": [" the", "."]}
        whole = self.ask(**fields)
        sent = {"prompt": "My favourite animal is", "temperature": 1.0, **fields}
        result = stream(
            self.server, COMPLETIONS, **sent, stream_options={"include_usage": True}
        )
        joined, reasons = {}, {}
        for chunk in result.chunks:
            for choice in chunk["choices"]:
                index = choice["index"]
                self.assertNotIn(index, reasons, "nothing follows a choice's end")
                joined[index] = joined.get(index, "") + choice["text"]
                if choice["finish_reason"]:
                    reasons[index] = choice["finish_reason"]
        self.assertEqual([joined[i] for i in range(4)], self.texts(whole))
        self.assertEqual(
            [reasons[i] for i in range(4)],
            [choice["finish_reason"] for choice in whole.json()["choices"]],
        )
        self.assertEqual(result.usage["completion_tokens"], whole.usage["completion_tokens"])
        self.assertTrue(result.done)

    # C199
    def test_a_request_is_counted_once_and_its_choices_apart(self):
        wait_until(lambda: idle(self.server), "idle")
        before, sums_before = metrics(self.server)
        answer = self.ask(n=3, max_tokens=2, ignore_eos=True)
        wait_until(lambda: idle(self.server), "idle again")
        after, sums_after = metrics(self.server)
        answers = next(
            name
            for name in after
            if name.startswith("bulkhead_http_responses_total")
            and f'endpoint="{COMPLETIONS}",status="200"' in name
        )
        self.assertEqual(after[answers] - before.get(answers, 0), 1)
        gained = {name: sums_after[name] - sums_before[name] for name in sums_after}
        self.assertEqual(gained["vllm:request_params_n_count"], 1)
        self.assertEqual(gained["vllm:request_params_n_sum"], 3)
        self.assertEqual(gained["vllm:prompt_tokens_total"], answer.usage["prompt_tokens"])
        self.assertEqual(gained["vllm:generation_tokens_total"], 6)


class Scores(Case):
    # C006
    def test_rescoring_an_answer_gives_the_numbers_it_was_made_with(self):
        made = complete(
            self.server,
            "The quick brown fox",
            temperature=0,
            max_tokens=quick(128, 40),
            ignore_eos=True,
            logprobs=0,
            return_token_ids=True,
        )
        choice = made.json()["choices"][0]
        ids = choice["prompt_token_ids"] + choice["token_ids"]
        made_with = choice["logprobs"]["token_logprobs"]
        scored = complete(self.server, ids, max_tokens=0, echo=True, logprobs=0)
        self.assertEqual(scored.status, 200, scored.body)
        again = scored.choice["logprobs"]["token_logprobs"]
        self.assertEqual(again[len(choice["prompt_token_ids"]) :], made_with)


class Tokenizing(Case):
    # C108
    def test_hostile_texts_are_bounded_where_they_are_only_tokenized(self):
        size = quick(1_000_000, 200_000)
        for text in ("." * size, "a" * size, " " * size, "\U0001f600" * (size // 4), "é" * size):
            answer = call(self.server, "POST", "/tokenize", {"prompt": text})
            self.assertIn(answer.status, (200, 400, 413))
            if answer.status == 200:
                self.assertLessEqual(answer.json()["count"], len(text.encode()) + 1)
        answers = together(
            [lambda: call(self.server, "POST", "/tokenize", {"prompt": "." * size}).status] * 8
            + [lambda: complete(self.server, "hi", max_tokens=2).status],
            9,
        )
        self.assertEqual(answers[-1], 200)
