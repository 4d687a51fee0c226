"""Sentences that say nothing of matter, to stand between a fact and the question about it.

A filler is a function (rng, characters) -> text. `own_prose` needs no files; `stretches_of` takes
pieces of real text, which is harder to look past.
"""

import word_lists as words


def sentence(rng):
    """One sentence of a small grammar: subject, verb, object, and now and then a second clause."""
    def thing():
        adjective = rng.choice(words.ADJECTIVES) + " " if rng.random() < 0.6 else ""
        return f"{rng.choice(('the', 'the', 'a', 'their', 'his', 'her'))} " \
               f"{adjective}{rng.choice(words.NOUNS)}"

    def clause():
        adverb = " " + rng.choice(words.ADVERBS) if rng.random() < 0.35 else ""
        return f"{thing()} {rng.choice(words.VERBS)} {thing()}{adverb}"

    text = clause()
    if rng.random() < 0.4:
        text += f" {rng.choice(words.LINKS)} {clause()}"
    elif rng.random() < 0.2:
        text += f", and {rng.choice(words.CITIES)} was {rng.randint(2, 99)} miles away"
    return text[0].upper() + text[1:] + "."


def own_prose(rng, characters):
    """About `characters` characters of whole sentences, never more than one sentence short."""
    parts, length = [], 0
    while length < characters or not parts:
        parts.append(sentence(rng))
        length += len(parts[-1]) + 1
    return " ".join(parts)


def stretches_of(texts):
    """A filler of random stretches, cut at spaces, of the given texts (each of some kilobytes)."""
    flat = [" ".join(text.split()) for text in texts]

    def filler(rng, characters):
        text = rng.choice(flat)
        start = text.index(" ", rng.randrange(max(1, len(text) - characters - 200))) + 1
        return text[start:start + characters].rsplit(" ", 1)[0]
    return filler


def mixed(texts):
    """Own prose half of the time, stretches of `texts` the other half; own prose alone without."""
    if not texts:
        return own_prose
    real = stretches_of(texts)
    return lambda rng, characters: (real if rng.random() < 0.5 else own_prose)(rng, characters)
