"""Compares what a crowd got with what each request gets alone, and looks for others' secrets in it.

Pure functions of recorded outcomes, so that tests can show what the judge sees.
"""

import collections
import dataclasses
import json
import re

from crowd import LEAVING

# What an answer to a sound request may be instead, by code: its status.
TRANSIENT = {"queue_full": 429, "capacity_exceeded": 503}
_MEMBERS = {"message", "type", "param", "code", "retriable", "request_id"}
# Anything of a code's letters, whatever stands beside it in small letters.
_WORD = re.compile(r"(?<![A-Z0-9])[A-HJ-NP-Z2-9]{4}(?![A-Z0-9])")


@dataclasses.dataclass(frozen=True)
class Fault:
    """kind: answer (not what it is alone), contract, foreign (another's secret), log."""
    kind: str
    index: int | None  # of the request
    text: str


@dataclasses.dataclass
class Choice:
    text: str = ""
    thought: str = ""
    scores: list = dataclasses.field(default_factory=list)
    ids: list = dataclasses.field(default_factory=list)
    end: tuple | None = None  # (finish_reason, stop_reason)

    def begins(self, whole):
        """Whether this is how `whole` begins."""
        return (whole.text.startswith(self.text) and whole.thought.startswith(self.thought)
                and whole.scores[:len(self.scores)] == self.scores
                and whole.ids[:len(self.ids)] == self.ids)


@dataclasses.dataclass
class Content:
    """An answer, whole or as far as it came; the same of a stream and of one piece."""
    choices: dict
    usage: tuple | None = None
    error: dict | None = None  # of a stream that broke
    done: bool = False


def _scores(given):
    """A list of one entry a token, of either endpoint's form."""
    if not given:
        return []
    if "content" in given:
        return given["content"]
    return list(zip(given["tokens"], given["token_logprobs"], given["top_logprobs"]))


def _usage(given):
    return given and (given["prompt_tokens"], given["completion_tokens"])


def content_of(outcome):
    if not outcome.is_stream:
        body = json.loads(outcome.body)
        content = Content({}, _usage(body["usage"]), None, True)
        parts = [(choice, choice.get("message", choice)) for choice in body["choices"]]
    else:
        # What stands behind the last line break may have been cut.
        lines = outcome.body[:outcome.body.rfind("\n") + 1].split("\n")
        events = [line[6:] for line in lines if line.startswith("data: ")]
        content = Content({}, done="[DONE]" in events)
        parts = []
        for event in (json.loads(event) for event in events if event != "[DONE]"):
            content.error = event.get("error") or content.error
            content.usage = _usage(event.get("usage")) or content.usage
            parts += [(choice, choice.get("delta", choice)) for choice in event.get("choices", ())]
    for choice, said in parts:
        one = content.choices.setdefault(choice["index"], Choice())
        one.text += said.get("content") or said.get("text") or ""
        one.thought += said.get("reasoning_content") or ""
        one.scores += _scores(choice.get("logprobs"))
        one.ids += choice.get("token_ids") or []
        if choice.get("finish_reason"):
            one.end = (choice["finish_reason"], choice.get("stop_reason"))
    return content


def words_of(text):
    return _WORD.findall(text)


class Judge:
    def __init__(self, asks, alone, keys=()):
        """`alone`: outcomes by number of the request. `keys`: what no log may hold either."""
        self._alone, self._keys = alone, keys
        self._owner = {word: ask.index for ask in asks for word in ask.secret}
        self._contents = {index: content_of(outcome) for index, outcome in alone.items()
                          if outcome.status == 200}
        # Codes that the model makes up may be somebody's: no leak when it does so alone.
        self._expected = {index: {word for choice in content.choices.values()
                                  for word in words_of(choice.text)}
                          for index, content in self._contents.items()}

    def faults(self, outcomes, may_fail=()):
        """`may_fail`: codes of retriable 503s that requests may end with besides."""
        found = []
        for outcome in outcomes:
            found += self._contract(outcome, may_fail)
            found += self._answer(outcome)
            found += self._foreign(outcome)
        return found

    def log_faults(self, text):
        found = [Fault("log", self._owner[word], f"the log holds {word}")
                 for word in words_of(text) if word in self._owner]
        return found + [Fault("log", None, "the log holds a key") for key in self._keys
                        if key in text]

    def _contract(self, outcome, may_fail):
        index, alone = outcome.ask.index, self._alone[outcome.ask.index]
        if outcome.way in LEAVING and not outcome.complete:
            return []
        if not outcome.complete:
            return [Fault("contract", index, f"status {outcome.status}, one that "
                          f"{outcome.way}: cut off after {outcome.body[-200:]!r}")]
        if outcome.status == alone.status:
            if outcome.status != 200:
                return _form_faults(outcome, outcome.error(), outcome.error()["retriable"])
            content = content_of(outcome)
            if content.error is None:
                return [] if content.done else [Fault("contract", index, "no end mark")]
            ends = [choice.end for choice in content.choices.values()]
            if content.done or (ends and all(ends)):
                return [Fault("contract", index, "an error, and an end as of a good answer")]
            return _code_faults(outcome, content.error, 503, may_fail)
        error = outcome.error()
        if error is None:
            return [Fault("contract", index, f"status {outcome.status}")]
        return _code_faults(outcome, error, outcome.status, may_fail)

    def _answer(self, outcome):
        index, alone = outcome.ask.index, self._alone[outcome.ask.index]
        if outcome.status == 0 or outcome.status != alone.status:
            return []
        if outcome.status != 200:
            if not outcome.complete:
                return []
            told, expected = ({**one.error(), "request_id": None} for one in (outcome, alone))
            if told == expected:
                return []
            return [Fault("answer", index, f"{told} instead of {expected}")]
        if not outcome.complete and not outcome.is_stream:
            return []
        content, expected = content_of(outcome), self._contents[index]
        cut = not outcome.complete or content.error is not None
        for number, choice in content.choices.items():
            whole = expected.choices.get(number, Choice())
            aborted = outcome.way == "aborts" and choice.end == ("abort", None)
            cut = cut or aborted
            if not choice.begins(whole) or (choice.end and choice != whole and not aborted):
                return [Fault("answer", index, f"{choice} instead of {whole}")]
        if cut or (content.choices, content.usage) == (expected.choices, expected.usage):
            return []
        return [Fault("answer", index, f"{content} instead of {expected}")]

    def _foreign(self, outcome):
        ask = outcome.ask
        own = {ask.index} | ({ask.parent.index} if ask.parent is not None else set())
        expected = self._expected.get(ask.index, set())
        folded = []
        if outcome.status == 200 and outcome.is_stream:
            folded = [choice.text for choice in content_of(outcome).choices.values()]
        found = []
        for text in [outcome.body, *outcome.headers.values(), *folded]:
            owners = [(word, self._owner.get(word)) for word in words_of(text)]
            found += [Fault("foreign", ask.index, f"{word} is of request {owner}")
                      for word, owner in owners
                      if owner is not None and owner not in own and word not in expected]
            for three in zip(owners, owners[1:], owners[2:]):
                owner = three[0][1]
                if owner is not None and owner not in own and {o for _, o in three} == {owner}:
                    found.append(Fault("foreign", ask.index,
                                       f"three words of request {owner} in a row"))
        return found


def _form_faults(outcome, error, retriable):
    index = outcome.ask.index
    found = []
    if set(error) != _MEMBERS or not error["message"]:
        found.append(Fault("contract", index, f"an error of another form: {error}"))
    elif error["request_id"] != outcome.headers.get("x-request-id"):
        found.append(Fault("contract", index, "an error that names another request"))
    if outcome.status != 200 and retriable != ("retry-after" in outcome.headers):
        found.append(Fault("contract", index, "Retry-After and retriable do not agree"))
    return found


def _code_faults(outcome, error, status, may_fail):
    index, code = outcome.ask.index, error["code"]
    allowed = {**TRANSIENT, **dict.fromkeys(may_fail, 503)}
    if outcome.way == "hurries":
        allowed["deadline_exceeded"] = 408
        status = 408 if outcome.status == 200 and code == "deadline_exceeded" else status
    if allowed.get(code) != status:
        return [Fault("contract", index, f"{status} {code}: {error['message']}")]
    if error["retriable"] != (code != "deadline_exceeded"):
        return [Fault("contract", index, f"{code} says retriable: {error['retriable']}")]
    return _form_faults(outcome, error, error["retriable"])


def counted(faults):
    return dict(collections.Counter(fault.kind for fault in faults))


def errors(outcomes):
    """How many ended with each code."""
    return dict(collections.Counter(outcome.error()["code"] for outcome in outcomes
                                    if outcome.error() is not None))
