"""Mix-ups made from recorded outcomes: what the judge must see, without a server that leaks."""

import dataclasses
import json
import re

EXCHANGED = "answers exchanged"
SPLICED = "a stream that goes on as another's"
SCORED = "another digit in a log-probability"
QUOTED = "another's word in an error"
TOLD = "another's secret in an answer"
ENDED = "a stream without its end"
NAMES = (EXCHANGED, SPLICED, SCORED, QUOTED, TOLD, ENDED)
EACH = 25  # of every kind


def mix_ups(outcomes, asks):
    """(name, kind of fault, outcomes with it)."""
    answers = [outcome for outcome in outcomes
               if outcome.way == "waits" and outcome.status == 200]
    streams = [outcome for outcome in answers if outcome.is_stream]
    whole = [outcome for outcome in answers if not outcome.is_stream]
    refused = [outcome for outcome in outcomes if outcome.status == 400]
    by_path = sorted(answers, key=lambda outcome: outcome.ask.path)
    for first, second in _pairs(by_path):
        yield EXCHANGED, "answer", [dataclasses.replace(second, ask=first.ask),
                                    dataclasses.replace(first, ask=second.ask)]
    for first, second in _pairs(sorted(streams, key=lambda outcome: outcome.ask.path)):
        if first.ask.path == second.ask.path:
            yield SPLICED, "answer", [_spliced(first, second)]
    for outcome in whole[:EACH]:
        yield SCORED, "answer", [_scored(outcome)]
    for outcome in refused[:EACH]:
        yield QUOTED, "foreign", [_quoting(outcome, _another(outcome, asks).secret[0])]
    for outcome in whole[:EACH]:
        yield TOLD, "foreign", [_telling(outcome, _another(outcome, asks).secret)]
    for outcome in streams[:EACH]:
        yield ENDED, "contract", [dataclasses.replace(
            outcome, body=outcome.body.replace("data: [DONE]", ""))]


def _pairs(outcomes):
    pairs = [(one, two) for one, two in zip(outcomes[::2], outcomes[1::2])
             if one.ask.index != two.ask.index]
    return pairs[::max(1, len(pairs) // EACH)]


def _another(outcome, asks):
    """Somebody's request that has nothing to do with this one, nor with its conversation."""
    return asks[(outcome.ask.index + len(asks) // 2) % len(asks)]


def _events(outcome):
    return [event for event in outcome.body.split("\n\n") if event]


def _spliced(first, second):
    """The first half of one stream, then the other's second half."""
    one, two = _events(first), _events(second)
    return dataclasses.replace(
        first, body="\n\n".join(one[:len(one) // 2] + two[len(two) // 2:]) + "\n\n")


def _scored(outcome):
    def other(match):
        return f"{match.group(1)}{(int(match.group(2)) + 1) % 10}"
    body, count = re.subn(r'((?:"logprob":|"token_logprobs":\[)-?\d+\.)(\d)', other,
                          outcome.body, count=1)
    assert count == 1, outcome.body
    return dataclasses.replace(outcome, body=body)


def _quoting(outcome, word):
    body = json.loads(outcome.body)
    body["error"]["message"] += f", not {word}"
    return dataclasses.replace(outcome, body=json.dumps(body))


def _telling(outcome, secret):
    body = json.loads(outcome.body)
    body["choices"][0]["note"] = " ".join(secret[:3])
    return dataclasses.replace(outcome, body=json.dumps(body))
