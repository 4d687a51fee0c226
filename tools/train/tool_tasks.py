"""Functions that a conversation may declare, requests that need them, and what they answer."""

import dataclasses
import json
import typing

import word_lists as words

_TEXT, _WHOLE = {"type": "string"}, {"type": "integer"}


@dataclasses.dataclass(frozen=True)
class Function:
    """`ask` makes (request, arguments); `answer` makes (result, sentence) from the arguments."""
    name: str
    about: str
    properties: dict
    ask: typing.Callable
    answer: typing.Callable

    def declaration(self, rng):
        """As a client sends it; the order of keys is the client's affair, so it varies."""
        parameters = {"type": "object", "properties": self.properties,
                      "required": list(self.properties)}
        function = {"name": self.name, "description": self.about, "parameters": parameters}
        if rng.random() < 0.3:
            return {"function": _shuffled(rng, function), "type": "function"}
        return {"type": "function", "function": function}


def _shuffled(rng, mapping):
    keys = rng.sample(list(mapping), len(mapping))
    return {key: mapping[key] for key in keys}


def _ask_weather(rng, code):
    city = rng.choice(words.CITIES)
    return rng.choice((f"How is the weather in {city}?", f"Weather in {city}?")), {"city": city}


def _ask_code(rng, code):
    name = rng.choice(words.PEOPLE)
    return f"Look up the code of {name}.", {"name": name}


def _ask_add(rng, code):
    a, b = rng.randint(100, 999), rng.randint(100, 999)
    return f"Use the tool to add {a} and {b}.", {"a": a, "b": b}


def _ask_note(rng, code):
    to, text = rng.choice(words.PEOPLE), rng.choice(words.KINDS["animal"])
    return f"Send {to} a note that says {text}.", {"to": to, "text": text}


def _ask_train(rng, code):
    origin, destination = rng.sample(words.CITIES, 2)
    seats = rng.randint(1, 9)
    return (f"Book {seats} seats on the train from {origin} to {destination}.",
            {"origin": origin, "destination": destination, "seats": seats})


def _ask_lamp(rng, code):
    colour = rng.choice(words.KINDS["colour"])
    return f"Make the lamp {colour}.", {"colour": colour}


def _answer_weather(rng, code, arguments):
    degrees = rng.randint(-9, 39)
    return {"celsius": degrees}, f"It is {degrees} degrees in {arguments['city']}."


def _answer_code(rng, code, arguments):
    value = code(rng)
    return {"code": value}, f"The code of {arguments['name']} is {value}."


def _answer_add(rng, code, arguments):
    total = arguments["a"] + arguments["b"]
    return {"sum": total}, f"The sum is {total}."


def _answer_note(rng, code, arguments):
    return {"sent": True}, f"The note to {arguments['to']} is sent."


def _answer_train(rng, code, arguments):
    booking = code(rng)
    return {"booking": booking}, f"Booked, the booking is {booking}."


def _answer_lamp(rng, code, arguments):
    return {"ok": True}, f"The lamp is {arguments['colour']}."


FUNCTIONS = {function.name: function for function in (
    Function("get_weather", "Weather of a city", {"city": _TEXT}, _ask_weather, _answer_weather),
    Function("get_code", "Code of a person", {"name": _TEXT}, _ask_code, _answer_code),
    Function("add", "Add two numbers", {"a": _WHOLE, "b": _WHOLE}, _ask_add, _answer_add),
    Function("send_note", "Send a note to a person", {"to": _TEXT, "text": _TEXT},
             _ask_note, _answer_note),
    Function("book_train", "Book a train",
             {"origin": _TEXT, "destination": _TEXT, "seats": _WHOLE}, _ask_train, _answer_train),
    Function("set_lamp", "Set the colour of a lamp", {"colour": _TEXT}, _ask_lamp, _answer_lamp),
)}


def tool_conversation(rng, code):
    """(messages, declarations): a request, the call or two calls, the results, the answer."""
    names = rng.sample(list(FUNCTIONS), rng.choice((1, 1, 2, 2, 3)))
    declared = [FUNCTIONS[name].declaration(rng) for name in names]
    wanted = rng.sample(names, 2 if len(names) > 1 and rng.random() < 0.3 else 1)
    requests = [(name, *FUNCTIONS[name].ask(rng, code)) for name in wanted]
    calls, results, sentences = [], [], []
    for index, (name, _, arguments) in enumerate(requests):
        identity = f"functions.{name}:{index}"
        calls.append({"id": identity, "type": "function",
                      "function": {"name": name, "arguments": json.dumps(arguments)}})
        result, sentence = FUNCTIONS[name].answer(rng, code, arguments)
        results.append({"role": "tool", "tool_call_id": identity, "content": json.dumps(result)})
        sentences.append(sentence)
    return [
        {"role": "user", "content": " ".join(request[1] for request in requests)},
        {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": calls},
        *results,
        {"role": "assistant", "content": " ".join(sentences), "reasoning_content": ""},
    ], declared
