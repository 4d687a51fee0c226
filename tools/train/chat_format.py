"""A conversation as tokens, with a weight for each: how much its prediction counts.

The text is what chat_template.jinja renders (a test holds the two together); it is built here in
pieces because the template cannot say which of them the assistant would have produced.
"""

import dataclasses
import json
import pathlib

TEMPLATE_FILE = pathlib.Path(__file__).resolve().with_name("chat_template.jinja")

SAID = 1.0  # by the assistant
GIVEN = 0.1  # by others: learning to guess it teaches the language, not the task
DECLARED = 0.02  # tool declarations: long, and always the same
LEFT_OUT = 0.0  # thinking that the template has dropped: to be read, never to be imitated

_ANSWER = "<|im_assistant|>assistant<|im_middle|>"


@dataclasses.dataclass(frozen=True)
class Document:
    """What the model reads as one text. `task` says whose account its mistakes go on."""
    task: str
    ids: list
    weights: list


def template():
    return TEMPLATE_FILE.read_text(encoding="utf-8")


def pieces(conversation):
    """[(text, is markup, weight)]; markup may hold control tokens, text never does."""
    parts, numbered = [], _Calls()
    if conversation.tools:
        parts += [("<|im_system|>tool_declare<|im_middle|>", True, GIVEN),
                  (json.dumps(conversation.tools, ensure_ascii=False), False, DECLARED),
                  ("<|im_end|>", True, GIVEN)]
    messages = conversation.messages
    past_end = max((i for i, message in enumerate(messages[:-1])
                    if message["role"] == "assistant" and not message.get("tool_calls")),
                   default=-1)
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            parts += _answer(message, conversation.thinking, index <= past_end, numbered)
        else:
            marker = "<|im_user|>" if message["role"] == "user" else "<|im_system|>"
            parts += [(f"{marker}{message['role']}<|im_middle|>", True, GIVEN),
                      (numbered.result_heading(message) + message["content"], False, GIVEN),
                      ("<|im_end|>", True, GIVEN)]
    return parts


def prompt_pieces(conversation):
    """The pieces before the last message, and the opening of the answer."""
    before = dataclasses.replace(
        conversation, messages=conversation.messages[:-1] + [{"role": "assistant", "content": ""}])
    parts = pieces(before)
    opening = len(parts) - 1 - parts[::-1].index((_ANSWER, True, GIVEN))
    # With the thinking closed, `<think></think>` is part of the prompt.
    return parts[:opening + (1 if conversation.thinking else 2)]


class _Calls:
    """Numbers the calls of a conversation and hands their ids to the results, in order."""

    def __init__(self):
        self.count, self.waiting = 0, []

    def next_id(self, name):
        identity = f"functions.{name}:{self.count}"
        self.count += 1
        self.waiting.append(identity)
        return identity

    def result_heading(self, message):
        return f"## Return of {self.waiting.pop(0)}\n" if message["role"] == "tool" else ""


def _answer(message, thinking, is_past, numbered):
    reasoning = message.get("reasoning_content", "")
    parts = [(_ANSWER, True, GIVEN)]
    if not thinking or (is_past and reasoning):
        parts.append(("<think></think>", True, LEFT_OUT))
    elif reasoning:
        parts += [("<think>", True, SAID), (reasoning, False, SAID), ("</think>", True, SAID)]
    else:
        parts.append(("<think></think>", True, SAID))
    parts.append((message["content"], False, SAID))
    if message.get("tool_calls"):
        parts.append(("<|tool_calls_section_begin|>", True, SAID))
        for call in message["tool_calls"]:
            function = call["function"]
            parts += [("<|tool_call_begin|>", True, SAID),
                      (numbered.next_id(function["name"]), False, SAID),
                      ("<|tool_call_argument_begin|>", True, SAID),
                      (function["arguments"], False, SAID), ("<|tool_call_end|>", True, SAID)]
        parts.append(("<|tool_calls_section_end|>", True, SAID))
    return parts + [("<|im_end|>", True, SAID)]


def encode(encoding, parts):
    """(ids, weights) of pieces. Text that spells a control token stays text."""
    ids, weights = [], []
    for text, is_markup, weight in parts:
        made = (encoding.encode(text, allowed_special="all") if is_markup
                else encoding.encode_ordinary(text))
        ids += made
        weights += [weight] * len(made)
    return ids, weights


def to_document(encoding, conversation):
    return Document(conversation.task, *encode(encoding, pieces(conversation)))
