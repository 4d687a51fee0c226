"""Conversations to learn from and to be examined on, each a pure function of its task and seed.

Seeds from EVALUATION_SEED on are kept for held-out sets: no example of them is ever trained on.
Names, codes, numbers, orders and wordings are drawn anew for each seed, and all that is asked is in
the conversation: the model reads, it knows nothing by heart.
"""

import dataclasses
import json
import random

import word_lists as words
from tool_tasks import tool_conversation

EVALUATION_SEED = 2**32


@dataclasses.dataclass(frozen=True)
class Conversation:
    """The last message is the assistant's; `thinking` False: the prompt has closed the thinking."""
    task: str
    messages: list
    tools: list | None = None
    thinking: bool = True


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "system", "content": text}


def assistant(text, reasoning=""):
    return {"role": "assistant", "content": text, "reasoning_content": reasoning}


def code(rng):
    return "".join(rng.choice(words.CODE_LETTERS) for _ in range(4))


def _code_sentence(person, value):
    """Said by the system message and by the answer alike: reading it back is one habit, not two."""
    return f"The code of {person} is {value}."


def vault(rng, filler, reach=0, first=None):
    """Codes in the system message, asked back. `reach`: characters of filler after them all
    (`first`) or spread between them; none given: a sentence here and there."""
    people = rng.sample(words.PEOPLE, rng.randint(1, 10))
    codes = {person: code(rng) for person in people}
    if first is None:
        first = rng.random() < 0.5
    parts = []
    for person in people:
        parts.append(_code_sentence(person, codes[person]))
        if reach and not first:
            parts.append(filler(rng, reach // len(people)))
        elif not reach and rng.random() < 0.3:
            parts.append(filler(rng, rng.randint(20, 120)))
    if reach and first:
        parts.append(filler(rng, reach))
    messages = [system(" ".join(parts))]
    for person in rng.sample(people, rng.randint(1, min(8, len(people)))):
        asked = rng.choice((f"What is the code of {person}?", f"Tell me the code of {person}.",
                            f"{person}'s code?"))
        messages += [user(asked), assistant(_code_sentence(person, codes[person]))]
    return Conversation("vault", messages)


def vault_far(rng, filler, reach=3000, first=None):
    """`vault` with `reach` characters between code and question."""
    far = vault(rng, filler, reach, first)
    return dataclasses.replace(far, task="vault_far")


def echo(rng, filler):
    if rng.random() < 0.5:
        said = " ".join(code(rng) for _ in range(rng.randint(1, 8)))
    else:
        said = filler(rng, rng.randint(20, 120))
    return Conversation("echo", [user(f"Repeat this: {said}"), assistant(said)])


def record(rng, filler):
    """Facts to be written as one JSON object, as structured output wants it."""
    values = {"name": rng.choice(words.PEOPLE), "age": rng.randint(1, 99),
              "city": rng.choice(words.CITIES), "code": code(rng),
              "member": rng.random() < 0.5}
    keys = rng.sample(list(values), rng.randint(2, 5))
    chosen = {key: values[key] for key in keys}
    said = ", ".join(f"{key} {json.dumps(value).strip(chr(34))}" for key, value in chosen.items())
    return Conversation("record", [user(f"Write as JSON: {said}."), assistant(json.dumps(chosen))])


def problem(rng, filler):
    """A word problem of one to three steps: the working is the reasoning, the result the answer."""
    person, goods, count = rng.choice(words.PEOPLE), rng.choice(words.GOODS), rng.randint(1, 60)
    story, working = [f"{person} has {count} {goods}."], []
    for _ in range(rng.randint(1, 3)):
        sign = rng.choice("+-*" if count <= 12 else "+-")
        if sign == "+":
            step = rng.randint(1, 39)
            result = count + step
            story.append(rng.choice((f"{person} buys {step} more.", f"{person} finds {step} more.",
                                     f"{rng.choice(words.PEOPLE)} gives {person} {step} more.")))
        elif sign == "-":
            step = rng.randint(0, min(count, 39))
            result = count - step
            story.append(f"{person} {rng.choice(('loses', 'sells', 'gives away'))} {step}.")
        else:
            step = rng.randint(2, 9)
            result = count * step
            story.append(f"Then the number of {goods} grows to {step} times as many.")
        working.append(f"{count} {sign} {step} = {result}")
        count = result
    story.append(f"How many {goods} does {person} have now?")
    answer = assistant(f"#### {count}", "\n".join(working))
    return Conversation("problem", [user(" ".join(story)), answer])


def choice(rng, filler, turns=None):
    """Four options, one right by what the system message says: the reasoning is that sentence, the
    answer the option's letter."""
    kind = rng.choice(list(words.KINDS))
    people = rng.sample(words.PEOPLE, 4)
    has = dict(zip(people, rng.sample(words.KINDS[kind], 4)))
    said = {person: f"The {kind} of {person} is {has[person]}." for person in people}
    messages = [system(" ".join(said.values()))]
    for _ in range(turns or rng.choice((1, 1, 2))):
        person = rng.choice(people)
        options = rng.sample(list(has.values()), 4)
        lines = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCD", options))
        messages += [user(f"What is the {kind} of {person}?\n{lines}\nAnswer with the letter."),
                     assistant("ABCD"[options.index(has[person])], said[person])]
    return Conversation("choice", messages)


def tools(rng, filler):
    """Declared tools, a call or two, their results, the answer; sometimes no call is right."""
    if rng.random() < 0.15:
        plain = rng.choice((choice, echo, vault))(rng, filler)
        _, declared = tool_conversation(rng, code)
        return dataclasses.replace(plain, task="tools", tools=declared)
    messages, declared = tool_conversation(rng, code)
    return Conversation("tools", messages, declared)


MAKERS = {maker.__name__: maker
          for maker in (vault, vault_far, echo, record, problem, choice, tools)}

# How often the prompt closes the thinking where there is reasoning to leave out.
_THOUGHTLESS = {"choice": 0.25, "problem": 0.1}


def training_example(task, seed, filler, **options):
    """The example of a training seed; some leave the reasoning out, as `thinking: false` does."""
    if not 0 <= seed < EVALUATION_SEED:
        raise ValueError(f"seed {seed} is kept for evaluation")
    rng = random.Random(f"{task}/{seed}")
    made = MAKERS[task](rng, filler, **options)
    if rng.random() < _THOUGHTLESS.get(task, 0):
        return dataclasses.replace(made, thinking=False)
    return made


def held_out_example(task, index, filler, **options):
    """Example `index` of the held-out set of a task; its seed is never trained on."""
    return MAKERS[task](random.Random(f"{task}/{EVALUATION_SEED + index}"), filler, **options)
