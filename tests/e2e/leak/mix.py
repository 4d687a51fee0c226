"""What is asked in the leak test: conversations of several tenants, each with a secret of its own.

A secret is a list of codes as the small model reads them; no code is in two requests, so a single
one in the wrong place is a leak. Prompts begin like those of other requests, of the same tenant and
of others: for one or two whole pages, one token less, or one token more. Everything is a pure
function of the arguments.
"""

import dataclasses
import random
import sys

from harness import ROOT

sys.path.insert(0, str(ROOT / "tools" / "train"))
import chat_format  # noqa: E402
import prose  # noqa: E402
import tasks  # noqa: E402
import vocabulary  # noqa: E402
import word_lists as words  # noqa: E402

MODEL = ROOT / "models" / "tiny-moe"
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
TENANTS = ("key-of-alice", "key-of-bob", "key-of-carol")
ADMIN = "key-of-the-admin"
_LETTERS = [letter for letter in words.CODE_LETTERS if letter.isalpha()]
_DIGITS = [letter for letter in words.CODE_LETTERS if letter.isdigit()]
_SYSTEM = "<|im_system|>system<|im_middle|>"


@dataclasses.dataclass
class Ask:
    """One request. `body` lacks `stream`; a follow-up gets its prompt from its parent's answer."""
    index: int
    tenant: str
    secret: tuple
    path: str
    body: dict
    streamed: bool
    parent: "Ask | None" = None
    question: list = dataclasses.field(default_factory=list)  # of a follow-up, as tokens

    def follow(self, answer_ids):
        """The prompt of a follow-up: the parent's, its answer, and the next question."""
        before = self.parent.body["prompt"] + answer_ids + [vocabulary.TURN_END]
        self.body["prompt"] = before + self.question

    def sent(self):
        if self.streamed:
            return {**self.body, "stream": True, "stream_options": {"include_usage": True}}
        return self.body


def secret_words(rng, count):
    """Distinct codes. With letters and a digit each, so that no number and no word is one."""
    made = {}
    while len(made) < count:
        letters = rng.choices(_LETTERS, k=3) + rng.choices(_DIGITS, k=1)
        rng.shuffle(letters)
        made["".join(letters)] = None
    return list(made)


class _Maker:
    def __init__(self, count, page_tokens, seed):
        self.rng = random.Random(f"leak/{seed}")
        self.encoding = vocabulary.read(MODEL)
        self.words = secret_words(self.rng, 6 * count)
        filler = random.Random(f"leak filler/{seed}")
        self.families = [self._family(filler, pages * page_tokens + more)
                         for pages in (1, 2) for more in (-1, 0, 1)]
        self.made = 0

    def _family(self, filler, tokens):
        """A beginning of exactly so many tokens: (as text, as tokens)."""
        head = self._ids([(_SYSTEM, True)])
        text = prose.own_prose(filler, 8 * tokens)
        ids = self.encoding.encode_ordinary(text)[:tokens - len(head)]
        return self.encoding.decode(ids), head + ids

    def _ids(self, pieces):
        return chat_format.encode(self.encoding, [(*piece, 0.0) for piece in pieces])[0]

    def _beginning(self):
        """One of two at a time, so that some are still cached when they are wanted again."""
        return self.families[(self.made // 20 + self.rng.randrange(2)) % len(self.families)]

    def _secret(self):
        taken, self.words = self.words[:6], self.words[6:]
        return tuple(taken)

    def _question(self, person):
        rng = self.rng
        return rng.choice((f"What is the code of {person}?", f"Tell me the code of {person}.",
                           f"{person}'s code?"))

    def _fields(self):
        """What else is asked; a seed fixes what is drawn."""
        rng = self.rng
        fields = {"max_tokens": rng.randint(16, 80), "temperature": 0}
        if rng.random() < 0.4:
            fields["ignore_eos"] = True
        if rng.random() < 0.15:  # so long that others give way, or it does
            fields.update(max_tokens=160, ignore_eos=True)
        if rng.random() < 0.2:
            fields.update(temperature=0.9, seed=rng.randrange(2**31))
        return fields

    def _ask(self, secret, path, body, **more):
        self.made += 1
        more.setdefault("tenant", TENANTS[(self.made // 7 + (self.rng.random() < 0.3)) % 3])
        return Ask(index=self.made - 1, secret=secret, path=path, body=body,
                   streamed=self.rng.random() < 0.6, **more)

    def conversation(self):
        kind = self.rng.random()
        if kind < 0.45:
            return self._by_tokens(follow=kind < 0.12)
        if kind < 0.8:
            return [self._by_messages()]
        if kind < 0.92:
            return [self._echo()]
        return [self._refused()]

    def _told(self, secret):
        """(the people, sentences that give each of them a code)."""
        people = self.rng.sample(words.PEOPLE, len(secret))
        return people, " ".join(f"The code of {person} is {code}."
                                for person, code in zip(people, secret))

    def _by_tokens(self, follow):
        """The beginning is shared to the very token."""
        secret = self._secret()
        people, told = self._told(secret)
        # Any token ends what is shared; without it all would go on alike.
        prompt = self._beginning()[1] + [self.rng.randrange(vocabulary.BASE)]
        prompt += self._ids([(" " + told, False), ("<|im_end|>", True)])
        prompt += self._turn(self.rng.choice(people))
        fields = {**self._fields(), "logprobs": 2, "return_token_ids": True}
        if not follow and self.rng.random() < 0.15:
            fields.update(n=2, temperature=0.9, seed=self.rng.randrange(2**31))
        first = self._ask(secret, COMPLETIONS, {"prompt": prompt, **fields})
        if not follow:
            return [first]
        first.body.update(max_tokens=24, ignore_eos=False)
        second = self._ask(secret, COMPLETIONS, dict(fields), tenant=first.tenant, parent=first,
                           question=self._turn(self.rng.choice(people)))
        return [first, second]

    def _turn(self, person):
        return self._ids([("<|im_user|>user<|im_middle|>", True), (self._question(person), False),
                          ("<|im_end|><|im_assistant|>assistant<|im_middle|>", True)])

    def _by_messages(self):
        secret = self._secret()
        people, told = self._told(secret)
        text = self._beginning()[0]
        messages = [tasks.system(f"{text} {told}"),
                    tasks.user(self._question(self.rng.choice(people)))]
        return self._ask(secret, CHAT, {"messages": messages, **self._fields(), "logprobs": True,
                                        "top_logprobs": 2})

    def _echo(self):
        """The answer is the whole secret."""
        secret = self._secret()
        body = {**self._fields(), "messages": [tasks.user("Repeat this: " + " ".join(secret))],
                "max_tokens": 48, "logprobs": True}
        return self._ask(secret, CHAT, body)

    def _refused(self):
        """A mistake beside the secret, or in its place: the error is looked at."""
        secret = self._secret()
        said = " ".join(secret)
        good = {"messages": [tasks.user(f"Repeat this: {said}")], "max_tokens": 8}
        bad = self.rng.choice((
            {"temperature": said},
            {"messages": [{"role": said, "content": said}]},
            {"messages": [tasks.user(said * 500)]},
            {"stop": [said, 7]},
            {"logit_bias": {said: 1}},
            {"response_format": {"type": said}},
            {"tools": [{"type": "function", "function": {"name": said}}]},
            {"tool_choice": said},
            {"messages": [{"role": "user", "content": [{"type": said}]}]},
            {"request_id": said},
            {"model": said},
            {"response_format": {"type": "json_object", "schema": {"type": said}}},
            {"response_format": {"type": "json_object", "schema": {"pattern": f"({said}"}}},
            {"chat_template_kwargs": said},
        ))
        return self._ask(secret, CHAT, {**good, **bad})


    def aligned(self):
        """All alike but for the code, which is in the first page: what one says is another's."""
        secret = self._secret()
        messages = [tasks.system(f"The code of Ada is {secret[0]}."),
                    tasks.user("What is the code of Ada?")]
        return self._ask(secret, CHAT, {"messages": messages, "temperature": 0, "max_tokens": 40,
                                        "ignore_eos": True, "logprobs": True})


def aligned(count, seed=1):
    """Requests whose pages can be mistaken for one another's, one to a conversation."""
    maker = _Maker(count, 16, seed)
    return [[maker.aligned()] for _ in range(count)]


def conversations(count, page_tokens, seed=1):
    """Lists of requests, `count` in all; within a list each waits for the one before."""
    maker = _Maker(count, page_tokens, seed)
    made = []
    while maker.made < count:
        made.append(maker.conversation())
    return made
