"""PyPI's openai client, unmodified."""

import unittest

import openai

from harness import Case

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class OpenAiClient(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(
            base_url=cls.server.url + "/v1",
            api_key=cls.server.key or "none",
            max_retries=0,
            timeout=300,
        )
        cls.model = cls.client.models.list().data[0].id

    def test_lists_and_retrieves_the_model(self):
        model = self.client.models.retrieve(self.model)
        self.assertEqual((model.id, model.object), (self.model, "model"))
        self.assertGreater(model.model_dump()["max_model_len"], 0)

    def test_chats(self):
        answer = self.client.chat.completions.create(
            model=self.model, messages=QUESTION, temperature=0, max_completion_tokens=24
        )
        choice = answer.choices[0]
        self.assertIn("Paris", choice.message.content)
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertEqual(
            answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens
        )
        self.assertLessEqual(answer.usage.completion_tokens, 24)

    def test_streams_a_chat_that_folds_to_the_whole_answer(self):
        ask = dict(model=self.model, messages=QUESTION, temperature=0, max_tokens=24)
        whole = self.client.chat.completions.create(**ask)
        text, finish, usage = "", None, None
        for chunk in self.client.chat.completions.create(
            **ask, stream=True, stream_options={"include_usage": True}
        ):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
            usage = chunk.usage or usage
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(finish, whole.choices[0].finish_reason)
        self.assertEqual(usage, whole.usage)

    def test_completes_a_prompt_with_log_probabilities(self):
        answer = self.client.completions.create(
            model=self.model, prompt="One, two, three,", temperature=0, max_tokens=8, logprobs=2
        )
        choice = answer.choices[0]
        logprobs = choice.logprobs
        self.assertEqual("".join(logprobs.tokens), choice.text)
        self.assertEqual(len(logprobs.token_logprobs), answer.usage.completion_tokens)
        for token, logprob, top in zip(
            logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs
        ):
            self.assertLessEqual(logprob, 0)
            self.assertEqual(
                top[token], logprob, "greedy: the chosen token is the most probable one"
            )
            self.assertEqual(max(top.values()), logprob)

    def test_gets_chat_log_probabilities_that_join_to_the_content(self):
        answer = self.client.chat.completions.create(
            model=self.model,
            messages=QUESTION,
            temperature=0,
            max_tokens=12,
            logprobs=True,
            top_logprobs=3,
        )
        records = answer.choices[0].logprobs.content
        joined = b"".join(bytes(record.bytes) for record in records)
        self.assertEqual(joined.decode(), answer.choices[0].message.content)
        self.assertTrue(all(len(record.top_logprobs) == 3 for record in records))

    def test_raises_the_classes_that_clients_catch(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=self.model, messages=QUESTION, temperature=3)
        self.assertEqual(
            (caught.exception.param, caught.exception.code), ("temperature", "invalid_value")
        )
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="gpt-nothing", messages=QUESTION)
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model=self.model, prompt="x", max_tokens=10**8)
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_reads_the_request_id(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=QUESTION,
            max_tokens=1,
            extra_headers={"x-request-id": "mine-1"},
        )
        self.assertEqual(raw.headers["x-request-id"], "mine-1")


if __name__ == "__main__":
    unittest.main()
