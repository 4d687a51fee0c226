"""Sends requests one at a time, or many at once: by clients that leave, hurry, abort, ask again, or
send those of two tenants through one connection.

What came back is kept as it came; judge.py looks at it.
"""

import asyncio
import dataclasses
import json
import random
import socket
import struct
import time

import harness
from mix import TENANTS, Ask

# What a client may do besides waiting for its answer. None of them changes what others get.
WAYS = ("leaves at once", "leaves early", "leaves midway", "hurries", "aborts", "shares")
LEAVING = WAYS[:3]
AGAIN = ("queue_full", "capacity_exceeded", "kv_integrity")  # codes of a client that asks again


@dataclasses.dataclass
class Outcome:
    ask: Ask
    way: str  # "waits", or one of WAYS
    status: int = 0  # 0: nothing came
    headers: dict = dataclasses.field(default_factory=dict)
    body: str = ""
    complete: bool = False  # by the framing of HTTP

    @property
    def is_stream(self):
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def error(self):
        """Instead of an answer, or at the end of a stream that broke; None: there is none."""
        if not self.complete:
            return None
        if self.status >= 400:
            return json.loads(self.body)["error"]
        found = self.body.find('data: {"error":') if self.is_stream else -1
        return json.loads(self.body[found + 6:].split("\n")[0])["error"] if found >= 0 else None


def _unchunked(data):
    """(body, whether its end mark came, what follows it) of what came so far."""
    out, at = bytearray(), 0
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            return bytes(out), False, b""
        size = int(data[at:line_end], 16)
        if size == 0:
            ended = data[line_end:line_end + 4] == b"\r\n\r\n"
            return bytes(out), ended, data[line_end + 4:]
        out += data[line_end + 2:line_end + 2 + size]
        at = line_end + 2 + size + 2


def outcome_of(ask, way, raw):
    return outcome_and_rest(ask, way, raw)[0]


def outcome_and_rest(ask, way, raw):
    """The first answer in these bytes, and the bytes behind it."""
    head, found, data = raw.partition(b"\r\n\r\n")
    if not found:
        return Outcome(ask, way), b""
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip()
               for name, _, value in (line.partition(":") for line in lines[1:])}
    if headers.get("transfer-encoding") == "chunked":
        data, complete, rest = _unchunked(data)
    else:
        length = int(headers["content-length"])
        complete = len(data) >= length
        data, rest = data[:length], data[length:]
    # A client that leaves may have half a character.
    text = data.decode("utf-8", errors="strict" if complete else "ignore")
    return Outcome(ask, way, int(lines[0].split(" ")[1]), headers, text, complete), rest


class Client:
    """One server's; every request has a connection of its own."""

    def __init__(self, server):
        self._server = server

    async def _open(self, *requests):
        reader, writer = await asyncio.open_connection(self._server.host, self._server.port)
        writer.write(b"".join(requests))
        await writer.drain()
        return reader, writer

    @staticmethod
    async def _read(reader, until=lambda raw: False):
        raw = bytearray()
        while not until(raw):
            piece = await asyncio.wait_for(reader.read(65536), harness.REQUEST_SECONDS)
            if not piece:
                break
            raw += piece
        return bytes(raw)

    async def ask(self, ask, way="waits", rng=None, **fields):
        sent = _request(ask.tenant, ask.path, {**ask.sent(), **fields})
        reader, writer = await self._open(sent)
        try:
            raw = await self._read(reader, _until(way, rng))
        finally:
            _close(writer, rudely=way in LEAVING and rng.random() < 0.5)
        return outcome_of(ask, way, raw)

    async def aborted(self, ask, rng):
        """(what the request got, how many requests another's abort ended)."""
        name = f"abort-{rng.getrandbits(64):x}"
        reader, writer = await self._open(_request(ask.tenant, ask.path, ask.sent(), name))
        try:
            if rng.random() < 0.5:
                await asyncio.sleep(rng.uniform(0, 0.1))
            others = [tenant for tenant in TENANTS if tenant != ask.tenant]
            stolen = await self._abort(rng.choice(others), name)
            await self._abort(ask.tenant, name)
            raw = await self._read(reader)
        finally:
            _close(writer)
        return outcome_of(ask, "aborts", raw), stolen

    async def sharing(self, first, second):
        """Two requests one behind the other, as a proxy sends them: two answers, in that order."""
        reader, writer = await self._open(
            _request(first.tenant, first.path, first.sent(), last=False),
            _request(second.tenant, second.path, second.sent()))
        try:
            raw = await self._read(reader)
        finally:
            _close(writer)
        one, rest = outcome_and_rest(first, "shares", raw)
        two, rest = outcome_and_rest(second, "shares", rest)
        assert not rest, rest
        return [one, two]

    async def _abort(self, tenant, name):
        return (await self.post(tenant, "/abort_request", {"rid": name}))["aborted"]

    async def post(self, tenant, path, body):
        """The JSON of an answer that must be a good one."""
        reader, writer = await self._open(_request(tenant, path, body))
        try:
            raw = await self._read(reader)
        finally:
            _close(writer)
        outcome = outcome_of(None, "waits", raw)
        assert outcome.status == 200, outcome.body
        return json.loads(outcome.body)


def _request(tenant, path, body, request_id=None, last=True):
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: leak", "Content-Type: application/json",
             f"Content-Length: {len(data)}", f"Authorization: Bearer {tenant}"]
    lines += [f"X-Request-Id: {request_id}"] if request_id else []
    lines += ["Connection: close"] if last else []
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def _until(way, rng):
    """When a client that leaves has seen enough."""
    if way == "leaves at once":
        return lambda raw: True
    if way == "leaves early":
        return bool
    if way == "leaves midway":
        events = rng.randint(2, 24)
        return lambda raw: raw.count(b"data: ") >= events
    return lambda raw: False


def _close(writer, rudely=False):
    """Rudely: by a reset, whatever the server still sends."""
    if rudely:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                   struct.pack("ii", 1, 0))
    writer.transport.abort()


def serially(server, conversations):
    """Every answer when nobody else asks, by number of the request. Fills in the follow-ups."""
    async def run():
        client, answers = Client(server), {}
        for conversation in conversations:
            for ask in conversation:
                if ask.parent is not None:
                    before = json.loads(answers[ask.parent.index].body)
                    ask.follow(before["choices"][0]["token_ids"])
                whole = dataclasses.replace(ask, streamed=False)
                answers[ask.index] = dataclasses.replace(await client.ask(whole), ask=ask)
        return answers
    return asyncio.run(run())


class Crowd:
    """All at once: `width` connections, every conversation in its own order.

    `after_answer`: awaited with the client and the number of answers so far, after each."""

    def __init__(self, server, width, seed=1, after_answer=None):
        self._client, self._width, self._seed = Client(server), width, seed
        self._after_answer = after_answer
        self._asks, self._answers = [], 0
        self._answered = time.monotonic()  # somebody, for the last time
        self.outcomes = []
        self.stolen = 0  # requests that somebody else's abort ended
        self.unanswered = []

    def run(self, conversations):
        self._asks = [ask for conversation in conversations for ask in conversation]

        async def run():
            places = asyncio.Semaphore(self._width)
            await asyncio.gather(*(self._converse(conversation, places)
                                   for conversation in conversations))
        asyncio.run(run())
        return self

    async def _converse(self, conversation, places):
        for ask in conversation:
            rng = random.Random(f"crowd/{self._seed}/{ask.index}")
            async with places:
                if rng.random() >= 0.35:
                    await self._until_answered(ask, rng)
                elif rng.random() < 0.5:  # the same once more while the first one may still run
                    await asyncio.gather(self._otherwise(ask, rng), self._until_answered(ask, rng))
                else:
                    await self._otherwise(ask, rng)
                    await self._until_answered(ask, rng)

    async def _otherwise(self, ask, rng):
        way = rng.choice(WAYS)
        if way == "shares":
            self.outcomes += await self._client.sharing(ask, rng.choice(self._asks))
            return
        if way == "aborts":
            outcome, stolen = await self._client.aborted(ask, rng)
            self.stolen += stolen
        elif way == "hurries":
            outcome = await self._client.ask(ask, way, deadline_ms=rng.randint(1, 400))
        else:
            outcome = await self._client.ask(ask, way, rng)
        self.outcomes.append(outcome)

    async def _until_answered(self, ask, rng):
        while time.monotonic() < self._answered + harness.REQUEST_SECONDS:
            outcome = await self._client.ask(ask)
            self.outcomes.append(outcome)
            error = outcome.error()
            if error is None or error["code"] not in AGAIN:
                self._answered = time.monotonic()
                self._answers += 1
                if self._after_answer is not None:
                    await self._after_answer(self._client, self._answers)
                return
            await asyncio.sleep(rng.uniform(0.1, 1) * self._width / 1000)
        self.unanswered.append(ask.index)
