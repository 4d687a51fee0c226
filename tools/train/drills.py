"""Exercises in looking back, as bare tokens: nothing but the context predicts their answers.

Reading a random code back takes a habit that forms all at once, after long practice: find where
this happened before, say what came next. Prose hardly rewards it; here nothing else is rewarded.
`repeat` forms it, `look_up` makes it choose among many places by a key of several tokens, which is
what a question about one of ten codes asks for.
"""

from chat_format import Document, GIVEN, LEFT_OUT, SAID


def _alphabet(rng, base):
    return rng.sample(range(base), rng.choice((4, 8, 16, 32, 64, 128)))


def repeat(rng, base):
    """A random string two to four times."""
    alphabet = _alphabet(rng, base)
    string = [rng.choice(alphabet) for _ in range(rng.randint(3, 40))]
    times = rng.randint(2, 4)
    # Until the second copy has begun, nothing tells that it has.
    weights = [LEFT_OUT] * (len(string) + 1) + [SAID] * (len(string) * (times - 1) - 1)
    return Document("repeat", string * times, weights)


def look_up(rng, base):
    """Keys with their values, then the keys again in another order: say each one's value."""
    marks = rng.sample(range(base), 2)
    alphabet = [token for token in _alphabet(rng, base) if token not in marks] or [0, 1]
    key_length, value_length = rng.randint(1, 3), rng.randint(1, 4)
    values = {}
    for _ in range(rng.randint(2, 12)):
        key = tuple(rng.choice(alphabet) for _ in range(key_length))
        values[key] = [rng.choice(alphabet) for _ in range(value_length)]
    ids, weights = [], []
    for key, value in values.items():
        ids += [*key, marks[0], *value, marks[1]]
        weights += [GIVEN] * (key_length + value_length + 2)
    for key in rng.sample(list(values), len(values)):
        ids += [*key, marks[0], *values[key], marks[1]]
        weights += [LEFT_OUT] * (key_length + 1) + [SAID] * (value_length + 1)
    return Document("look_up", ids, weights)


DRILLS = {"repeat": repeat, "look_up": look_up}
