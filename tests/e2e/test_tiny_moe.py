"""The small model of our own: it reads its context, so a leak or a wrong page is a wrong answer.

The questions are held-out examples of tools/train, never trained on.
"""

import sys
import unittest

from harness import ROOT, Server, call, find_binary, quick, together

sys.path.insert(0, str(ROOT / "tools" / "train"))
import held_out  # noqa: E402

CHAT = "/v1/chat/completions"
MODEL = ROOT / "models" / "tiny-moe"
FLAGS = ["--kv-cache-memory", "16MiB", "--page-size", "16", "--max-running-requests", "32"]


def body_of(example):
    body = {"messages": example.messages[:-1], "temperature": 0, "max_tokens": 200}
    if example.tools:
        body["tools"] = example.tools
    return body


def message_of(reply):
    assert reply.status == 200, reply.body
    return reply.choice["message"]


@unittest.skipUnless(find_binary(), "needs a built bulkhead")
class TinyMoe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # It is part of the repository, so a checkout without it is broken.
        assert (MODEL / "model.safetensors").exists(), f"{MODEL} has no model.safetensors"
        cls.server = Server(FLAGS, model=str(MODEL))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def ask(self, example):
        return message_of(call(self.server, "POST", CHAT, body_of(example)))

    def test_it_answers_what_it_was_not_trained_on(self):
        for name in held_out.REQUIRED:
            with self.subTest(name):
                examples = held_out.examples(name, quick(20, 5))
                answers = together([lambda e=e: self.ask(e) for e in examples], 16)
                right = sum(held_out.is_right(example.messages[-1], answer)
                            for example, answer in zip(examples, answers))
                self.assertGreaterEqual(right, len(examples) * 0.8)

    def test_thirty_two_at_once_get_their_own_codes_and_nobody_elses(self):
        examples = held_out.examples("vault", quick(32, 8))
        alone = [self.ask(example) for example in examples]
        at_once = together([lambda e=e: self.ask(e) for e in examples], 32)
        self.assertEqual(alone, at_once)
        wanted = [example.messages[-1]["content"] for example in examples]
        codes = [text.rstrip(".").rpartition(" ")[2] for text in wanted]
        for index, answer in enumerate(at_once):
            for other, code in enumerate(codes):
                if other != index and code not in str(examples[index].messages):
                    self.assertNotIn(code, answer["content"])


if __name__ == "__main__":
    unittest.main()
