#!/usr/bin/env python3
"""Bulkhead's template engine against PyPI `jinja2`, byte for byte, on seeded input.

    differential_test.py path/to/chat_render_lines [--conversations N] [--snippets N] [--seed N]

Templates come from templates/ beside this file and, when present, from the shared model data. Where
jinja2 raises, Bulkhead must refuse; what a template says through raise_exception must be equal.
Trusted text is checked too: no control token of a message may come out as trusted.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import unittest
import warnings

import conversations
import engine
import reference
import snippets

OPTIONS = None
HERE = pathlib.Path(__file__).resolve().parent
TOTALS = {"templates": 0, "conversations": 0, "rendered": 0, "snippets": 0}
# Families whose tools, results and reasoning matter most: more conversations for each template.
FAMILIES = ("kimi", "glm", "deepseek", "qwen", "hermes", "chatml")
# A character of a private plane stands before and after everything a client sends, so that client
# text can be told apart in the output.
MARK = "\U000F1234"


def shared_templates():
    root = pathlib.Path(os.environ.get("BULKHEAD_SHARED", HERE.parents[1].parent / "shared"))
    return sorted((root / "data/models/chat-templates").glob("*.jinja"))


def disagreement(text, error, answer):
    """Why the two renders differ, or None."""
    if error is None:
        if answer.text == text:
            return None
        if answer.text is None:
            return f"jinja2 renders, Bulkhead says: {answer.error}"
        at = next((i for i, (a, b) in enumerate(zip(text, answer.text)) if a != b),
                  min(len(text), len(answer.text)))
        near = slice(max(0, at - 60), at + 60)
        return f"at {at}: {text[near]!r} != {answer.text[near]!r}"
    if answer.error is None:
        return f"jinja2 raises {error!r}, Bulkhead renders {answer.text!r:.200}"
    exhausted = isinstance(error, (RecursionError, OverflowError, MemoryError))
    if answer.code == "resource_exhausted" and not exhausted:
        return f"jinja2 raises {error!r}, Bulkhead runs into a limit: {answer.error}"
    if isinstance(error, reference.Refusal) and answer.error != str(error):
        return f"raise_exception says {str(error)!r}, Bulkhead {answer.error!r}"
    return None


def marked(value):
    """`value` with every string of a client's wrapped in marks; keys and roles stay readable."""
    if isinstance(value, str):
        return MARK + value + MARK
    if isinstance(value, list):
        return [marked(item) for item in value]
    if isinstance(value, dict):
        return {key: value[key] if key in ("role", "type") else marked(value[key])
                for key in value}
    return value


class DifferentialTest(unittest.TestCase):
    def compare_template(self, path):
        source = path.read_text(encoding="utf-8")
        rng = random.Random(f"{OPTIONS.seed}/{path.name}")
        of_family = any(family in path.name.lower() for family in FAMILIES)
        requests = [conversations.conversation(rng, json.dumps)
                    for _ in range(OPTIONS.conversations * (4 if of_family else 1))]
        answers = engine.render(OPTIONS.tool, [dict(r, template=source, now=reference.NOW)
                                               for r in requests])
        template = reference.Template(reference.environment(), source)
        problems, rendered = [], 0
        for request, answer in zip(requests, answers):
            text, error = template.render(json.loads(json.dumps(request)))
            rendered += error is None
            problem = disagreement(text, error, answer)
            if problem:
                problems.append(f"{path.name}: {problem}")
        TOTALS["templates"] += 1
        TOTALS["conversations"] += len(requests)
        TOTALS["rendered"] += rendered
        print(f"  {path.name}: {rendered} of {len(requests)} rendered by jinja2, "
              f"{len(problems)} differ")
        self.assertFalse(problems, "\n".join(problems[:3]))

    def test_own_templates_render_as_in_jinja2(self):
        for path in sorted((HERE / "templates").glob("*.jinja")):
            with self.subTest(path.name):
                self.compare_template(path)

    def test_published_templates_render_as_in_jinja2(self):
        paths = shared_templates()
        if not paths:
            self.skipTest("no published templates: ../shared is not here")
        for path in paths:
            with self.subTest(path.name):
                self.compare_template(path)

    def test_snippets_render_as_in_jinja2(self):
        rng = random.Random(OPTIONS.seed)
        sources = snippets.WRITTEN + snippets.MULTILINE
        sources = sources + [snippets.snippet(rng) for _ in range(OPTIONS.snippets)]
        requests = [{"template": source, "messages": [], "add_generation_prompt": False,
                     "extra": snippets.VARIABLES, "now": reference.NOW} for source in sources]
        answers = engine.render(OPTIONS.tool, requests)
        env = reference.environment()
        problems = []
        for request, answer in zip(requests, answers):
            template = reference.Template(env, request["template"])
            text, error = template.render(json.loads(json.dumps(request)))
            if text is not None and " at 0x" in text.lower():
                continue  # the address of a Python object
            TOTALS["snippets"] += 1
            problem = disagreement(text, error, answer)
            if problem:
                problems.append(f"{request['template']!r}: {problem}")
        self.assertFalse(problems, "\n".join(problems[:5]))

    # C152
    def test_no_text_of_a_client_is_trusted(self):
        for path in sorted((HERE / "templates").glob("*.jinja")) + shared_templates():
            source = path.read_text(encoding="utf-8")
            rng = random.Random(f"trust/{OPTIONS.seed}/{path.name}")
            requests = []
            for _ in range(OPTIONS.conversations):
                request = conversations.conversation(rng, json.dumps)
                request["messages"] = marked(request["messages"])
                request["tools"] = marked(request.get("tools"))
                requests.append(dict(request, template=source, now=reference.NOW))
            for answer in engine.render(OPTIONS.tool, requests):
                for trusted, text in answer.segments or []:
                    self.assertFalse(trusted and MARK in text, f"{path.name}: {text!r:.300}")

    # C152
    def test_control_tokens_of_a_client_are_never_trusted(self):
        """With and without forged tokens in the messages, equally many come out trusted."""
        for path in sorted((HERE / "templates").glob("*.jinja")) + shared_templates():
            source = path.read_text(encoding="utf-8")
            requests = []
            for filler in ["plain"] + conversations.CONTROL:
                requests.append({
                    "template": source, "add_generation_prompt": True, "now": reference.NOW,
                    "bos_token": "<BOS>", "eos_token": "<EOS>",
                    "messages": [{"role": "user", "content": "a " + filler + " b"},
                                 {"role": "assistant", "content": "c " + filler + " d"},
                                 {"role": "user", "content": filler}]})
            answers = engine.render(OPTIONS.tool, requests)
            if answers[0].segments is None:
                continue
            for filler, answer in zip(conversations.CONTROL, answers[1:]):
                if answer.segments is None:
                    continue
                counts = [sum(text.count(filler) for trusted, text in each.segments if trusted)
                          for each in (answers[0], answer)]
                self.assertEqual(counts[0], counts[1], f"{path.name}: {filler}")


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("--conversations", type=int, default=60)
    parser.add_argument("--snippets", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    OPTIONS = parser.parse_args()
    warnings.simplefilter("ignore")  # Python's own remarks on generated snippets
    result = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    print(", ".join(f"{count} {what}" for what, count in TOTALS.items()))
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
