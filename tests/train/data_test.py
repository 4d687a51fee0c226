"""The makers of training data and held-out sets (tools/train), without torch."""

import base64
import json
import pathlib
import random
import sys
import tempfile
import unittest

import jinja2.sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "train"))

import chat_format  # noqa: E402
import drills  # noqa: E402
import feed  # noqa: E402
import held_out  # noqa: E402
import prose  # noqa: E402
import tasks  # noqa: E402
import vocabulary  # noqa: E402

SEEDS = range(60)


def examples(task, **options):
    return [tasks.training_example(task, seed, prose.own_prose, **options) for seed in SEEDS]


def reference_template():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(chat_format.template())


def text_of(pieces):
    return "".join(text for text, _, _ in pieces)


def learn():
    texts = [text for task in tasks.MAKERS for made in examples(task)
             for text, is_markup, _ in chat_format.pieces(made) if not is_markup]
    return vocabulary.encoding(vocabulary.learn_ranks(texts))


ENCODING = learn()


class Tasks(unittest.TestCase):
    def test_the_same_seed_makes_the_same_example_and_another_seed_another(self):
        for task in tasks.MAKERS:
            made = examples(task)
            self.assertEqual(made, examples(task))
            self.assertGreater(len({json.dumps(m.messages) for m in made}), len(made) * 0.9, task)

    def test_training_refuses_the_seeds_of_evaluation(self):
        for seed in (tasks.EVALUATION_SEED, tasks.EVALUATION_SEED + 7, -1):
            with self.assertRaises(ValueError):
                tasks.training_example("vault", seed, prose.own_prose)

    def test_an_answer_of_the_vault_stands_in_the_system_message(self):
        for made in examples("vault") + examples("vault_far"):
            stated = made.messages[0]["content"]
            for message in made.messages:
                if message["role"] == "assistant":
                    self.assertIn(message["content"], stated)

    def test_far_means_that_many_characters_between_the_last_code_and_the_question(self):
        for made in held_out.examples("vault_far", 20):
            stated = made.messages[0]["content"]
            end = max(stated.index(f"The code of {person} is") for person in
                      [part.split(" is ")[0] for part in stated.split("The code of ")[1:]])
            self.assertGreater(len(stated) - end, 3000)

    def test_exactly_one_option_of_a_choice_is_right(self):
        for made in examples("choice"):
            for question, answer in zip(made.messages[1::2], made.messages[2::2]):
                lines = question["content"].split("\n")
                options = dict(line.split(". ", 1) for line in lines[1:5])
                self.assertEqual(len(set(options.values())), 4)
                reason = answer["reasoning_content"]
                self.assertIn(reason, made.messages[0]["content"])
                self.assertTrue(reason.endswith(f" is {options[answer['content']]}."))
                self.assertIn(lines[0].removeprefix("What is the ").removesuffix("?"), reason)

    def test_the_working_of_a_problem_leads_to_its_answer(self):
        for made in examples("problem"):
            answer = made.messages[-1]
            for line in answer["reasoning_content"].split("\n"):
                left, result = line.split(" = ")
                a, sign, b = left.split()
                expected = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign]
                self.assertEqual(int(result), expected)
            self.assertEqual(answer["content"], f"#### {result}")
            self.assertGreaterEqual(int(result), 0)

    def test_calls_fit_their_declarations_and_results_name_their_calls(self):
        for made in examples("tools"):
            declared = {t["function"]["name"]: t["function"]["parameters"] for t in made.tools}
            ids = []
            for message in made.messages:
                for call in message.get("tool_calls", []):
                    schema = declared[call["function"]["name"]]
                    arguments = json.loads(call["function"]["arguments"])
                    self.assertEqual(set(arguments), set(schema["required"]))
                    for key, value in arguments.items():
                        kind = {"string": str, "integer": int}[schema["properties"][key]["type"]]
                        self.assertIs(type(value), kind)
                    ids.append(call["id"])
                if message["role"] == "tool":
                    self.assertEqual(message["tool_call_id"], ids.pop(0))

    def test_a_record_is_the_json_of_what_was_said(self):
        for made in examples("record"):
            for value in json.loads(made.messages[1]["content"]).values():
                spelled = json.dumps(value).strip('"')
                self.assertIn(spelled, made.messages[0]["content"])


class Format(unittest.TestCase):
    def test_the_pieces_are_what_the_template_renders(self):
        template = reference_template()
        for task in tasks.MAKERS:
            for made in examples(task):
                closed = {} if made.thinking else {"thinking": False}
                prompt = template.render(messages=made.messages[:-1], tools=made.tools,
                                         add_generation_prompt=True, **closed)
                self.assertEqual(text_of(chat_format.prompt_pieces(made)), prompt)
                whole = text_of(chat_format.pieces(made))
                self.assertTrue(whole.startswith(prompt), whole)
                self.assertTrue(whole.endswith("<|im_end|>"))

    def test_only_the_assistants_own_words_count_in_full(self):
        for task in tasks.MAKERS:
            for made in examples(task):
                said = "".join(text for text, _, weight in chat_format.pieces(made)
                               if weight == chat_format.SAID)
                for message in made.messages:
                    if message["role"] == "user":
                        self.assertNotIn(message["content"], said)
                self.assertIn(made.messages[-1]["content"], said)
                # Thinking that the prompt closed, or that the template drops, is not imitated.
                if not made.thinking:
                    self.assertNotIn("<think>", said)

    def test_text_that_spells_a_control_token_stays_text(self):
        talk = tasks.Conversation("echo", [tasks.user("say <|im_end|>"), tasks.assistant("no")])
        document = chat_format.to_document(ENCODING, talk)
        self.assertEqual(document.ids.count(vocabulary.TURN_END), 2)

    def test_an_answer_parsed_from_its_text_is_right_and_a_spoilt_one_is_wrong(self):
        for name in held_out.SETS:
            for made in held_out.examples(name, 20):
                prompt = text_of(chat_format.prompt_pieces(made))
                answer = text_of(chat_format.pieces(made))[len(prompt):]
                expected = made.messages[-1]
                self.assertTrue(held_out.is_right(expected, held_out.parse(answer)), answer)
                self.assertFalse(held_out.is_right(expected, held_out.parse("")), answer)
                if expected.get("tool_calls"):
                    spoilt = answer.replace(":0<|", ":0<|", 1).replace('": "', '": "x', 1)
                    if spoilt != answer:
                        self.assertFalse(held_out.is_right(expected, held_out.parse(spoilt)))


class Vocabulary(unittest.TestCase):
    def test_encoding_and_decoding_give_the_text_back(self):
        for text in ("Hello world", "naïve café 😀", "你好，世界", "a\r\n\r\nb\t\tc  d", "It's"):
            self.assertEqual(ENCODING.decode(ENCODING.encode_ordinary(text)), text)

    def test_digits_and_capitals_are_a_token_each(self):
        for text, count in (("7390152", 7), ("K7QZ", 4), ("THEAND", 6)):
            self.assertEqual(len(ENCODING.encode_ordinary(text)), count)

    def test_control_tokens_stand_at_kimis_offsets(self):
        tokens = vocabulary.control_tokens()
        self.assertEqual(len(tokens), vocabulary.CONTROLS)
        for spelled, offset in (("[BOS]", 0), ("<|im_end|>", 2), ("<|im_middle|>", 17),
                                ("<|tool_calls_section_begin|>", 11), ("</think>", 23),
                                ("[PAD]", 255)):
            self.assertEqual(tokens[spelled], vocabulary.BASE + offset)

    def test_the_files_read_back_as_the_same_encoding(self):
        ranks = vocabulary.learn_ranks(["low lower lowest newer new"], size=262)
        with tempfile.TemporaryDirectory() as folder:
            vocabulary.write(ranks, folder)
            lines = (pathlib.Path(folder) / "tiktoken.model").read_bytes().splitlines()
            self.assertEqual([base64.b64decode(line.split()[0]) for line in lines], ranks)
            config = json.loads((pathlib.Path(folder) / "tokenizer_config.json").read_text())
        self.assertFalse(config["added_tokens_decoder"][str(vocabulary.BASE + 22)]["special"])
        self.assertEqual(ranks[256], b"lo")  # as often as "ow": the first in order

    def test_learning_is_the_same_twice(self):
        texts = [made.messages[0]["content"] for made in examples("choice")]
        self.assertEqual(vocabulary.learn_ranks(texts), vocabulary.learn_ranks(texts))


class Drills(unittest.TestCase):
    def test_what_counts_in_a_repetition_was_there_before(self):
        rng = random.Random(1)
        for _ in range(200):
            made = drills.repeat(rng, vocabulary.BASE)
            self.assertEqual(len(made.ids), len(made.weights))
            first = made.weights.index(chat_format.SAID)
            period = first - 1
            for place in range(first, len(made.ids)):
                self.assertEqual(made.ids[place], made.ids[place - period])

    def test_every_answer_of_a_look_up_follows_from_its_key(self):
        rng = random.Random(2)
        for _ in range(200):
            made = drills.look_up(rng, vocabulary.BASE)
            self.assertEqual(len(made.ids), len(made.weights))
            half = len(made.ids) // 2
            self.assertNotIn(chat_format.SAID, made.weights[:half])
            mark = made.ids[-1]
            entries = split_after(made.ids, mark)
            count = len(entries) // 2
            self.assertEqual(sorted(entries[:count]), sorted(entries[count:]))


def split_after(ids, mark):
    parts, start = [], 0
    for place, token in enumerate(ids):
        if token == mark:
            parts.append(ids[start:place + 1])
            start = place + 1
    return parts


class Feed(unittest.TestCase):
    def steps(self, progress, count=12, budget=1024):
        source = feed.Feed(ENCODING, prose.own_prose, [], seed=5)
        return [source.step(number, budget, progress) for number in range(count)]

    def test_a_step_is_full_to_the_token_and_documents_stay_whole(self):
        for documents in self.steps(feed.Progress()):
            self.assertEqual(sum(len(document.ids) for document in documents), 1024)
            for document in documents:
                self.assertEqual(len(document.ids), len(document.weights))
                if document.task in tasks.MAKERS:
                    self.assertEqual(document.ids[-1], vocabulary.TURN_END)

    def test_the_same_seed_makes_the_same_steps(self):
        self.assertEqual(self.steps(feed.Progress()), self.steps(feed.Progress()))

    def test_drills_come_first_and_far_after_near(self):
        young, grown = feed.Progress(), feed.Progress()
        grown.right.update(look_up=0.95, vault=0.8)
        grown.note("look_up", 1.0)
        def of(progress):
            return [document.task for step in self.steps(progress, 40) for document in step]
        self.assertNotIn("vault_far", of(young))
        self.assertIn("vault_far", of(grown))
        def drilled(names):
            return sum(name in drills.DRILLS for name in names) / len(names)
        self.assertGreater(drilled(of(young)), 4 * drilled(of(grown)))

    def test_the_habit_is_not_lost_to_a_bad_day(self):
        progress = feed.Progress()
        progress.right["look_up"] = 0.849
        progress.note("look_up", 1.0)
        self.assertTrue(progress.has_habit)
        for _ in range(20):
            progress.note("look_up", 0.1)
        self.assertTrue(progress.has_habit)
        for _ in range(100):
            progress.note("look_up", 0.1)
        self.assertFalse(progress.has_habit)

    def test_what_fails_comes_more_often(self):
        progress = feed.Progress()
        progress.right.update(dict.fromkeys(progress.right, 1.0), choice=0.0)
        self.assertGreater(progress.share("choice"), 4 * progress.share("problem"))
        self.assertGreater(progress.share("problem"), 0)


if __name__ == "__main__":
    unittest.main()
