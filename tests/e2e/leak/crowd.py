"""Sends requests one at a time, or many at once by clients that leave, hurry, abort and ask again.

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
WAYS = ("leaves at once", "leaves early", "leaves midway", "hurries", "aborts")
LEAVING = WAYS[:3]
BUSY = ("queue_full", "capacity_exceeded")  # codes that mean: ask again


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
        """Of an answer that is one, not of a stream that broke."""
        return json.loads(self.body)["error"] if self.complete and self.status >= 400 else None


def _unchunked(data):
    """(body, whether its end mark came) of what came so far."""
    out, at = bytearray(), 0
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            return bytes(out), False
        size = int(data[at:line_end], 16)
        if size == 0:
            return bytes(out), data[line_end:] == b"\r\n\r\n"
        out += data[line_end + 2:line_end + 2 + size]
        at = line_end + 2 + size + 2


def outcome_of(ask, way, raw):
    head, found, data = raw.partition(b"\r\n\r\n")
    if not found:
        return Outcome(ask, way)
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip()
               for name, _, value in (line.partition(":") for line in lines[1:])}
    if headers.get("transfer-encoding") == "chunked":
        data, complete = _unchunked(data)
    else:
        complete = len(data) == int(headers.get("content-length", -1))
    # A client that leaves may have half a character.
    text = data.decode("utf-8", errors="strict" if complete else "ignore")
    return Outcome(ask, way, int(lines[0].split(" ")[1]), headers, text, complete)


class Client:
    """One server's; every request has a connection of its own."""

    def __init__(self, server):
        self._server = server

    async def _open(self, tenant, path, body, request_id=None):
        data = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", "Host: leak", "Content-Type: application/json",
                 f"Content-Length: {len(data)}", "Connection: close",
                 f"Authorization: Bearer {tenant}"]
        if request_id:
            lines.append(f"X-Request-Id: {request_id}")
        reader, writer = await asyncio.open_connection(self._server.host, self._server.port)
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
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
        reader, writer = await self._open(ask.tenant, ask.path, {**ask.sent(), **fields})
        try:
            raw = await self._read(reader, _until(way, rng))
        finally:
            _close(writer, rudely=way in LEAVING and rng.random() < 0.5)
        return outcome_of(ask, way, raw)

    async def aborted(self, ask, rng):
        """(what the request got, how many requests another's abort ended)."""
        name = f"abort-{rng.getrandbits(64):x}"
        reader, writer = await self._open(ask.tenant, ask.path, ask.sent(), name)
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

    async def _abort(self, tenant, name):
        reader, writer = await self._open(tenant, "/abort_request", {"rid": name})
        try:
            raw = await self._read(reader)
        finally:
            _close(writer)
        return json.loads(outcome_of(None, "waits", raw).body)["aborted"]


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
    """All at once: `width` connections, every conversation in its own order."""

    def __init__(self, server, width, seed=1):
        self._client, self._width, self._seed = Client(server), width, seed
        self._answered = time.monotonic()  # somebody, for the last time
        self.outcomes = []
        self.stolen = 0  # requests that somebody else's abort ended
        self.unanswered = []

    def run(self, conversations):
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
            if error is None or error["code"] not in BUSY:
                self._answered = time.monotonic()
                return
            await asyncio.sleep(rng.uniform(0.1, 1) * self._width / 1000)
        self.unanswered.append(ask.index)
