"""Answers to BFCL's questions as models give them, made from the possible answers: right ones, and
ones that miss by a little. The same question and change give the same answer."""

import copy
import json
import random


def right_calls(truth, rng):
    """[(name, arguments)] with allowed values; what may be absent sometimes is."""
    return [(name, arguments_of(allowed, rng)) for call in truth for name, allowed in call.items()]


def arguments_of(allowed, rng):
    made = {}
    for name, values in allowed.items():
        there = [value for value in values if value != ""]
        if "" in values and (not there or rng.random() < 0.5):
            continue
        if there:
            made[name] = inner(rng.choice(there), rng)
    return made


def inner(value, rng):
    """A dict's members have lists of allowed values of their own."""
    if isinstance(value, dict):
        return arguments_of(value, rng)
    if isinstance(value, list):
        return [inner(item, rng) for item in value]
    return copy.deepcopy(value)


def restyled(text, rng):
    """The same text for BFCL: case, blanks and ,./-_*^ do not count, nor do kinds of quotes."""
    style = rng.randrange(5)
    if style == 0:
        return text.upper()
    if style == 1:
        return text.replace(" ", "")
    if style == 2:
        return "-".join(text.split(" ")) + "."
    if style == 3:
        return text.replace("'", '"') if "'" in text else "*" + text.replace(",", "") + "*"
    return text.lower().replace("/", "_")


def spelled_otherwise(value, rng):
    """A value that looks like the same one, of which some count and some do not."""
    if isinstance(value, bool):
        return rng.choice([int(value), str(value), str(value).lower()])
    if isinstance(value, int):
        return rng.choice([float(value), str(value), value == 1, [value]])
    if isinstance(value, float):
        whole = int(value) if value == int(value) else round(value, 1)
        return rng.choice([whole, str(value), [value]])
    if isinstance(value, str):
        return restyled(value, rng)
    if isinstance(value, list):
        return rng.choice([value[::-1], {"0": value}, str(value), value[0] if value else None])
    if isinstance(value, dict):
        return rng.choice([[value], json.dumps(value), list(value)])
    return rng.choice([0, "null", "None"])  # of nothing


def other_value(value, rng):
    """Another value, mostly of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return rng.choice([value + 1, -value, value + 0.5, value * 10])
    if isinstance(value, str):
        return rng.choice([value + "s", value[1:], "", "another text", value + " !"])
    if isinstance(value, list):
        return rng.choice([[], value + value[:1], value[:-1], value + [None]])
    return rng.choice([{}, {**(value or {}), "more": 1}])


def changed_inside(value, change, rng):
    """The value with one of its leaves changed, or itself where it is one."""
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return value[:at] + [changed_inside(value[at], change, rng)] + value[at + 1 :]
    if isinstance(value, dict) and value:
        name = rng.choice(sorted(value))
        return {**value, name: changed_inside(value[name], change, rng)}
    return change(value, rng)


def with_argument(calls, change, rng):
    """One argument of one call changed."""
    places = [(i, name) for i, (_, arguments) in enumerate(calls) for name in arguments]
    if places:
        at, name = rng.choice(places)
        calls[at][1][name] = change(calls[at][1][name], rng)
    return calls


def without_argument(calls, rng):
    places = [(i, name) for i, (_, arguments) in enumerate(calls) for name in arguments]
    if places:
        at, name = rng.choice(places)
        del calls[at][1][name]
    return calls


def with_too_much(calls, declared, rng):
    _, arguments = rng.choice(calls)
    names = [name for function in declared for name in function["parameters"].get("properties", {})]
    arguments[rng.choice(names + ["surprise"])] = rng.choice([0, "x", None, True, [1], {"a": 1}])
    return calls


def renamed(calls, declared, rng):
    at = rng.randrange(len(calls))
    name = calls[at][0]
    others = [function["name"] for function in declared if function["name"] != name]
    calls[at] = (rng.choice(others + [name + "_", name.upper(), ""]), calls[at][1])
    return calls


def all_texts_restyled(value, rng):
    if isinstance(value, str):
        return restyled(value, rng)
    if isinstance(value, list):
        return [all_texts_restyled(item, rng) for item in value]
    if isinstance(value, dict):
        return {name: all_texts_restyled(item, rng) for name, item in value.items()}
    return value


def other_calls(calls, rng):
    """More, fewer, or in another order."""
    way = rng.randrange(4)
    if way == 0:
        return calls + [copy.deepcopy(rng.choice(calls))]
    if way == 1:
        return calls[:-1]
    if way == 2:
        return []
    rng.shuffle(calls)
    return calls


def unreadable(calls, rng):
    """Arguments that are no JSON object."""
    made = written(calls)
    at = rng.randrange(len(made))
    made[at] = (made[at][0], rng.choice(["[1, 2]", '{"a": ', "", "null", "3", made[at][1] + "}"]))
    return made


def written(calls):
    return [(name, json.dumps(arguments)) for name, arguments in calls]


# What is done to the right calls, by name.
CHANGES = {
    "right": lambda calls, declared, rng: calls,
    "restyled": lambda calls, declared, rng: [
        (name, all_texts_restyled(arguments, rng)) for name, arguments in calls],
    "spelled otherwise": lambda calls, declared, rng: with_argument(calls, spelled_otherwise, rng),
    "another value": lambda calls, declared, rng: with_argument(calls, other_value, rng),
    "spelled otherwise inside": lambda calls, declared, rng: with_argument(
        calls, lambda value, rng: changed_inside(value, spelled_otherwise, rng), rng),
    "another value inside": lambda calls, declared, rng: with_argument(
        calls, lambda value, rng: changed_inside(value, other_value, rng), rng),
    "one missing": lambda calls, declared, rng: without_argument(calls, rng),
    "one too much": with_too_much,
    "another name": renamed,
    "other calls": lambda calls, declared, rng: other_calls(calls, rng),
}


def answer(question, truth, change):
    """[(name, text of the arguments)] for a question; names as an API allows them."""
    rng = random.Random(f"{question['id']} {change}")
    declared = question["function"]
    calls = right_calls(truth, rng)
    if not calls:  # none is wanted: call something, or nothing
        calls = [(declared[0]["name"], {})] if declared else [("anything", {})]
        calls = calls if change != "right" else []
    if change == "unreadable":
        made = unreadable(calls, rng)
    else:
        made = written(CHANGES[change](calls, declared, rng) if calls else calls)
    return [(name.replace(".", "_"), text) for name, text in made]
