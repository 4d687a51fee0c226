"""SOLO and FOLD on a model with latent attention and experts, and on one with sparse attention.

The checkpoints are random and made on the spot (tools/checkpoints): what they write is noise, which
must be the same noise under any load.
"""

import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from harness import ROOT, Server, call, find_binary, quick, stream, together

COMPLETIONS = "/v1/completions"


def make_checkpoint(preset, folder):
    script = ROOT / "tools" / "checkpoints" / "make_random_checkpoint.py"
    subprocess.run([sys.executable, str(script), preset, str(folder)], check=True,
                   stdout=subprocess.DEVNULL)


def bodies_of(count):
    """Prompts of 4 to 300 ids and answers of 6 to 20: on both sides of an indexer's top 32."""
    source = random.Random(5)
    return [
        {
            "prompt": [source.randrange(3, 900) for _ in range(4 + i * 37 % 297)],
            "temperature": 0,
            "ignore_eos": True,
            "max_tokens": 6 + i % 15,
            "return_token_ids": True,
        }
        for i in range(count)
    ]


class FamilyCase:
    preset = None

    @classmethod
    def setUpClass(cls):
        if find_binary() is None:
            raise unittest.SkipTest("no binary to test")
        cls.folder = tempfile.TemporaryDirectory(prefix="bulkhead-family-")
        path = pathlib.Path(cls.folder.name) / cls.preset
        make_checkpoint(cls.preset, path)
        cls.server = Server(["--context-length", "512"], model=str(path))

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, f"the server ended with exit code {code}"

    def test_concurrent_answers_are_byte_equal_to_lone_ones(self):
        bodies = bodies_of(quick(32, 12))
        lone = [call(self.server, "POST", COMPLETIONS, body) for body in bodies]
        self.assertEqual({answer.status for answer in lone}, {200}, lone[0].body)
        jobs = [lambda body=body: call(self.server, "POST", COMPLETIONS, body) for body in bodies]
        for alone, among in zip(lone, together(jobs, 32)):
            self.assertEqual(among.status, 200, among.body)
            self.assertEqual(among.text, alone.text)
            self.assertEqual(among.choice.get("token_ids"), alone.choice.get("token_ids"))
        self.assertGreater(len({answer.text for answer in lone}), len(bodies) // 2)

    def test_a_joined_stream_is_the_whole_answer(self):
        body = bodies_of(10)[-1]
        whole = call(self.server, "POST", COMPLETIONS, body)
        self.assertEqual(stream(self.server, COMPLETIONS, **body).text, whole.text)


    # C083
    def test_the_split_placement_gives_the_same_tokens_and_logprobs(self):
        flags = ["--context-length", "512", "--placement", "split"]
        split = Server(flags, model=self.server.model)
        try:
            for body in bodies_of(12):
                body["logprobs"] = 5
                ours = call(split, "POST", COMPLETIONS, body)
                self.assertEqual(ours.status, 200, ours.body)
                shared = call(self.server, "POST", COMPLETIONS, body)
                self.assertEqual(ours.choice, shared.choice)
        finally:
            self.assertEqual(split.stop(), 0)


class LatentAttentionAndExperts(FamilyCase, unittest.TestCase):
    preset = "nano"


class SparseAttention(FamilyCase, unittest.TestCase):
    preset = "nano-G"


if __name__ == "__main__":
    unittest.main()
