"""Several choices, lists of prompts, echo, scores and token ids on a real model."""

import time

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
    wait_until,
)

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
STORY = "Once upon a time there was a"


def texts(answer):
    """Choices in the order of their indexes."""
    choices = sorted(answer.json()["choices"], key=lambda choice: choice["index"])
    return [
        choice["message"]["content"] if "message" in choice else choice["text"]
        for choice in choices
    ]


def tokens_of(server, text):
    return call(server, "POST", "/tokenize", {"prompt": text}).json()["tokens"]


def cached(answer):
    return answer.usage["prompt_tokens_details"]["cached_tokens"]


def joined(result):
    """A stream's choices by index: text, finish reason, usage."""
    choices = {}
    for chunk in result.chunks:
        for choice in chunk["choices"]:
            one = choices.setdefault(choice["index"], {"text": "", "reasons": [], "openings": 0})
            assert not one["reasons"], "nothing follows a choice's finish chunk"
            delta = choice.get("delta", {})
            one["openings"] += "role" in delta
            one["text"] += choice.get("text") or delta.get("content") or ""
            if choice["finish_reason"] is not None:
                one["reasons"].append(choice["finish_reason"])
                one["usage"] = choice["usage"]
    return choices


class Choices(Case):
    def test_the_first_choice_is_the_only_one_and_the_others_differ(self):
        fields = {"max_tokens": 12, "temperature": 1, "seed": 11, "ignore_eos": True}
        alone = complete(self.server, STORY, **fields)
        several = complete(self.server, STORY, n=4, **fields)
        self.assertEqual(several.status, 200, several.body)
        self.assertEqual(texts(several)[0], alone.text)
        self.assertEqual(len(set(texts(several))), 4)
        self.assertEqual(texts(complete(self.server, STORY, n=4, **fields)), texts(several))
        self.assertEqual(several.usage["prompt_tokens"], alone.usage["prompt_tokens"])
        self.assertEqual(several.usage["completion_tokens"], 48)

    def test_greedy_choices_are_copies(self):
        answer = chat(self.server, "Name a colour.", n=3, temperature=0, max_tokens=8)
        self.assertEqual([choice["index"] for choice in answer.json()["choices"]], [0, 1, 2])
        self.assertEqual(len(set(texts(answer))), 1)

    def test_many_choices_of_a_long_prompt_are_those_of_short_requests(self):
        prompt = " ".join(f"Line {i}: the sea is wide." for i in range(quick(60, 20)))
        count = quick(24, 6)
        answer = complete(self.server, prompt, n=count, max_tokens=6, seed=5, ignore_eos=True)
        again = complete(self.server, prompt, n=2, max_tokens=6, seed=5, ignore_eos=True)
        self.assertEqual(len(texts(answer)), count)
        self.assertEqual(texts(answer)[:2], texts(again))
        wait_until(lambda: idle(self.server), "the server is idle")

    def test_lists_of_prompts_are_answered_one_by_one(self):
        prompts = ["The capital of France is", "One, two, three,", "A"]
        fields = {"max_tokens": 5, "temperature": 0}
        alone = [complete(self.server, prompt, **fields) for prompt in prompts]
        answer = complete(self.server, prompts, n=2, **fields)
        self.assertEqual(texts(answer), [one.text for one in alone for _ in range(2)])
        self.assertEqual(
            answer.usage["prompt_tokens"], sum(one.usage["prompt_tokens"] for one in alone)
        )
        ids = [tokens_of(self.server, prompt) for prompt in prompts]
        self.assertEqual(texts(complete(self.server, ids, n=2, **fields)), texts(answer))

    def test_a_stream_tells_every_choice_to_its_end(self):
        for path, fields in (
            (CHAT, {"messages": [{"role": "user", "content": "Tell a story."}]}),
            (COMPLETIONS, {"prompt": [STORY, "The sea"], "echo": True}),
        ):
            fields |= {"n": 3, "seed": 3, "temperature": 1, "max_tokens": 10, "ignore_eos": True}
            whole = call(self.server, "POST", path, fields)
            result = stream(self.server, path, stream_options={"include_usage": True}, **fields)
            choices = joined(result)
            with self.subTest(path=path):
                self.assertTrue(result.done)
                self.assertEqual([choices[i]["text"] for i in sorted(choices)], texts(whole))
                for choice in choices.values():
                    self.assertEqual(choice["reasons"], ["length"])
                    self.assertEqual(choice["usage"]["completion_tokens"], 10)
                    self.assertEqual(choice["openings"], path == CHAT)
                self.assertEqual(result.chunks[-1]["choices"], [])
                self.assertEqual(sum(not chunk["choices"] for chunk in result.chunks), 1)
                for figure in ("prompt_tokens", "completion_tokens"):
                    self.assertEqual(result.usage[figure], whole.usage[figure])

    def test_too_many_are_refused_with_the_limit(self):
        self.assert_error(complete(self.server, STORY, n=129), 400, "invalid_value", "n")
        answer = complete(self.server, ["a"] * 65, n=2)
        self.assert_error(answer, 400, "invalid_value", "n")
        self.assertIn("128", answer.error["message"])
        self.assert_error(complete(self.server, ["a"] * 129), 400, "invalid_value", "prompt")
        self.assert_error(
            complete(self.server, "a", best_of=2), 400, "unsupported_parameter", "best_of"
        )

    def test_a_client_that_leaves_cancels_them_all(self):
        before = metrics(self.server)[1]["vllm:request_success_total"]
        fields = {"n": 8, "max_tokens": 4000, "ignore_eos": True, "stream": True}
        connection = open_request(self.server, COMPLETIONS, prompt=STORY, **fields)
        connection.recv(200)
        connection.close()
        wait_until(lambda: idle(self.server), "the server is idle")
        after = metrics(self.server)[1]["vllm:request_success_total"]
        self.assertEqual(after - before, 8, "each is recorded once")


class Scores(Case):
    FIELDS = {"max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True, "seed": 1234}

    def scores(self, prompt, **fields):
        answer = complete(self.server, prompt, **{**self.FIELDS, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.choice["logprobs"]

    def test_arrays_cover_the_prompt_and_one_token(self):
        ids = tokens_of(self.server, STORY)
        for prompt in (ids, [ids], STORY, [STORY]):
            logprobs = self.scores(prompt)
            for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                self.assertEqual(len(logprobs[name]), len(ids) + 1, name)
            self.assertIsNone(logprobs["token_logprobs"][0])
            self.assertIsNone(logprobs["top_logprobs"][0])
            self.assertTrue(all(value <= 0 for value in logprobs["token_logprobs"][1:]))

    def test_the_most_probable_token_is_there_to_the_last_bit(self):
        # What greedy decoding wrote is the most probable token at every place when it is scored.
        ids = tokens_of(self.server, STORY)
        answer = complete(
            self.server, ids, max_tokens=12, temperature=0, return_token_ids=True, logprobs=1
        )
        made = answer.choice["token_ids"]
        self.assertEqual(len(made), answer.usage["completion_tokens"])
        self.assertEqual(answer.choice["prompt_token_ids"], ids)
        logprobs = self.scores(ids + made)
        scored = logprobs["token_logprobs"][len(ids) : len(ids) + len(made)]
        tops = logprobs["top_logprobs"][len(ids) : len(ids) + len(made)]
        self.assertEqual(scored, [max(top.values()) for top in tops])
        self.assertEqual(scored, answer.choice["logprobs"]["token_logprobs"])

    def test_offsets_count_from_the_start_of_the_echoed_text(self):
        prompt = "Straße, café, 你好 \U0001f600 end"
        answer = complete(self.server, prompt, **{**self.FIELDS, "max_tokens": 4})
        text, logprobs = answer.choice["text"], answer.choice["logprobs"]
        self.assertTrue(text.startswith(prompt))
        for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
            if not token.startswith("bytes:"):
                self.assertEqual(text[offset : offset + len(token)], token)

    def test_a_batch_scores_as_one_by_one(self):
        prompts = [STORY, "The capital of France is Paris", "Hello"]
        answer = complete(self.server, prompts, **self.FIELDS)
        choices = sorted(answer.json()["choices"], key=lambda choice: choice["index"])
        for prompt, choice in zip(prompts, choices, strict=True):
            self.assertEqual(choice["logprobs"], self.scores(prompt))

    def test_a_scored_prompt_is_scored_alike_when_it_is_cached(self):
        prompt = " ".join(f"Note {i}." for i in range(60))
        first = self.scores(prompt)
        complete(self.server, prompt, max_tokens=2)
        self.assertEqual(self.scores(prompt), first)

    def test_an_end_token_has_an_entry(self):
        # A stop token that the model is made to choose: it is not part of the text.
        ids = tokens_of(self.server, STORY)
        bias = {"logit_bias": {"5": 100}, "stop_token_ids": [5]}
        answer = complete(self.server, ids, **self.FIELDS, **bias)
        self.assertEqual(answer.choice["finish_reason"], "stop")
        self.assertEqual(answer.choice["stop_reason"], 5)
        self.assertEqual(len(answer.choice["logprobs"]["tokens"]), len(ids) + 1)
        self.assertEqual(answer.choice["text"], STORY)
        self.assertEqual(answer.usage["completion_tokens"], 0)

    def test_the_prompt_alone(self):
        answer = complete(self.server, STORY, max_tokens=0, echo=True, logprobs=0)
        self.assertEqual(answer.text, STORY)
        self.assertEqual(answer.usage["completion_tokens"], 0)
        self.assertEqual(answer.choice["finish_reason"], "length")
        self.assert_error(
            complete(self.server, STORY, max_tokens=0), 400, "invalid_value", "max_tokens"
        )

    def test_prompt_logprobs_agree_with_echo(self):
        fields = {"logprobs": 3, "prompt_logprobs": 3, "return_tokens_as_token_ids": True}
        logprobs = self.scores(STORY, **fields)
        answer = complete(self.server, STORY, prompt_logprobs=3, max_tokens=1)
        listed = answer.choice["prompt_logprobs"]
        self.assertIsNone(listed[0])
        for token, value, entry in zip(
            logprobs["tokens"][1:-1], logprobs["token_logprobs"][1:-1], listed[1:], strict=True
        ):
            self.assertEqual(entry[token.removeprefix("token_id:")]["logprob"], value)
        chat_answer = chat(self.server, "hi", prompt_logprobs=0, max_tokens=1)
        self.assertEqual(
            len(chat_answer.json()["prompt_logprobs"]), chat_answer.usage["prompt_tokens"]
        )
        refused = complete(self.server, STORY, prompt_logprobs=1, stream=True)
        self.assert_error(refused, 400, "invalid_value", "prompt_logprobs")


class Service(Case):
    def test_a_deadline_ends_the_request(self):
        for fields, headers in (
            ({"deadline_ms": 300}, {}),
            ({"deadline_ms": 80_000_000}, {"X-Request-Timeout-Ms": "300"}),
        ):
            body = {"prompt": STORY, "max_tokens": 4000, "ignore_eos": True, **fields}
            start = time.monotonic()
            answer = call(
                self.server, "POST", COMPLETIONS, body, headers_for(self.server, headers)
            )
            self.assert_error(answer, 408, "deadline_exceeded")
            self.assertLess(time.monotonic() - start, quick(20, 60))
        answer = call(
            self.server,
            "POST",
            COMPLETIONS,
            {"prompt": "a"},
            headers_for(self.server, {"X-Request-Timeout-Ms": "soon"}),
        )
        self.assert_error(answer, 400, "invalid_value", "X-Request-Timeout-Ms")

    def test_a_request_may_be_named_in_its_body(self):
        answer = complete(self.server, "a", max_tokens=1, request_id="job-7", user="u", store=True)
        self.assertEqual(answer.headers["x-request-id"], "job-7")

    def test_the_last_message_is_continued(self):
        messages = [
            {"role": "user", "content": "Count to five."},
            {"role": "assistant", "content": "One, two, three,"},
        ]
        fields = {"temperature": 0, "max_tokens": 4}
        answer = chat(self.server, "", messages=messages, continue_final_message=True, **fields)
        self.assertEqual(answer.status, 200, answer.body)
        rendered = call(self.server, "POST", "/apply-template", {"messages": messages}).json()
        cut = rendered["prompt"].rindex(messages[-1]["content"]) + len(messages[-1]["content"])
        plain = complete(self.server, rendered["prompt"][:cut], **fields)
        self.assertEqual(answer.text, plain.text)
        messages[-1]["partial"] = True
        self.assertEqual(chat(self.server, "", messages=messages, **fields).text, answer.text)

    def test_a_request_that_opts_out_leaves_nothing_in_the_cache(self):
        prompt = " ".join(f"Secret {i}." for i in range(80))
        kept = {"cache_prompt": False, "max_tokens": 1, "temperature": 0}
        self.assertEqual(cached(complete(self.server, prompt, **kept)), 0)
        first = complete(self.server, prompt, max_tokens=1, temperature=0)
        self.assertEqual(cached(first), 0, "the request before left nothing")
        again = complete(self.server, prompt, **kept)
        self.assertEqual((cached(again), again.text), (0, first.text))
        salted = complete(self.server, prompt, max_tokens=1, temperature=0, cache_salt="x")
        self.assertEqual((cached(salted), salted.text), (0, first.text))
        second = complete(self.server, prompt, max_tokens=1, temperature=0)
        self.assertGreater(cached(second), 0)
        self.assertEqual(second.text, first.text)
