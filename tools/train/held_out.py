"""The held-out sets, and when an answer is right.

A set is a list of conversations whose last message is the answer wanted. Their seeds are never
trained on; the filler between facts is prose of the same grammar, made from those seeds.
"""

import json
import re

import prose
import tasks

# name -> (task, options, the turn asked: 0 is the first answer, -1 the last)
SETS = {
    "vault": ("vault", {}, -1),
    "vault_far": ("vault_far", {"reach": 3000, "first": True}, 0),
    "choice": ("choice", {"turns": 1}, -1),
    "tools": ("tools", {}, 0),
    "tool_answers": ("tools", {}, -1),
    "echo": ("echo", {}, -1),
    "record": ("record", {}, -1),
    "problem": ("problem", {}, -1),
}
REQUIRED = ("vault", "vault_far", "choice", "tools")

_CALL = re.compile(r"<\|tool_call_begin\|>(.*?)<\|tool_call_argument_begin\|>(.*?)"
                   r"<\|tool_call_end\|>", re.DOTALL)


def examples(name, count, filler=prose.own_prose):
    task, options, turn = SETS[name]
    made = []
    for index in range(count):
        whole = tasks.held_out_example(task, index, filler, **options)
        turns = [i for i, m in enumerate(whole.messages) if m["role"] == "assistant"]
        made.append(tasks.Conversation(name, whole.messages[:turns[turn] + 1], whole.tools))
    return made


def calls_of(message):
    """[(name, arguments)] of a message in the form of the API; None where they are no JSON."""
    try:
        return [(call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message.get("tool_calls") or []]
    except ValueError:
        return None


def parse(text):
    """Generated text, markup included, as a message in the form of the API."""
    thought, _, rest = text.removesuffix("<|im_end|>").rpartition("</think>")
    content, _, section = rest.partition("<|tool_calls_section_begin|>")
    calls = [{"id": header, "type": "function", "function": {
        "name": header.removeprefix("functions.").rpartition(":")[0], "arguments": arguments}}
        for header, arguments in _CALL.findall(section)]
    message = {"role": "assistant", "content": content.strip(),
               "reasoning_content": thought.removeprefix("<think>").strip()}
    return {**message, "tool_calls": calls} if calls else message


def is_right(expected, message):
    """Calls count by name and parsed arguments, a problem by its number, the rest by its text."""
    wanted, made = calls_of(expected), calls_of(message)
    if wanted or made or made is None:
        return wanted == made
    want, got = expected["content"].strip(), (message.get("content") or "").strip()
    if want.startswith("####"):
        return got.split("####")[-1].strip() == want.split("####")[-1].strip()
    if want.startswith("{"):
        try:
            return json.loads(got) == json.loads(want)
        except ValueError:
            return False
    return got == want
