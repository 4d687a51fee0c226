"""An endpoint for completions in front of an engine that runs in this very process.

What the comparison asks of a server and no more: token ids in, token ids out (as text with spaces
between), greedy, not streamed. HTTP and the engine share one thread: between two steps of the
engine whatever has arrived is read, so that a step never waits for a request nor a request for the
interpreter's lock. That costs 0.02 ms a step and, with 512 ids, less than 1 ms a request.

An engine has add(key, request), step() -> [(key, ids), ...] of those that are finished, and
gather_seconds, how long it wants to wait for others before the first step of an idle engine.
"""

import argparse
import asyncio
import dataclasses
import json
import pathlib

# Rounds of the event loop that take a request from a new connection to the engine: accept, watch,
# read, parse the head, parse the body; one to spare.
_SETTLING_ROUNDS = 6
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found"}


@dataclasses.dataclass(frozen=True)
class Request:
    prompt: list  # token ids
    tokens: int
    ignore_eos: bool


def read_request(body):
    """The Request in a body; ValueError says what is wrong with it."""
    fields = json.loads(body)
    if not isinstance(fields, dict):
        raise ValueError("the body must be an object")
    prompt, tokens = fields.get("prompt"), fields.get("max_tokens", 16)
    if not isinstance(prompt, list) or not prompt or not all(type(one) is int for one in prompt):
        raise ValueError("prompt must be a list of token ids")
    if type(tokens) is not int or tokens < 1:
        raise ValueError("max_tokens must be a positive number")
    if fields.get("temperature", 1) != 0 or fields.get("stream"):
        raise ValueError("only temperature 0, and no streams")
    return Request(prompt, tokens, bool(fields.get("ignore_eos")))


def completion(request, ids):
    return {"object": "text_completion",
            "choices": [{"index": 0, "text": " ".join(map(str, ids)),
                         "finish_reason": "length" if len(ids) == request.tokens else "stop"}],
            "usage": {"prompt_tokens": len(request.prompt), "completion_tokens": len(ids),
                      "total_tokens": len(request.prompt) + len(ids)}}


class Server:
    def __init__(self, engine):
        self._engine = engine
        self._answers = {}  # future token ids by key
        self._next_key = 0
        self._arrived = asyncio.Event()
        self._listener = None

    async def listen(self, host, port):
        """Starts to listen; the port it got."""
        self._listener = await asyncio.start_server(self._serve_connection, host, port, backlog=512)
        return self._listener.sockets[0].getsockname()[1]

    async def run(self):
        """Steps the engine while there is something to do; ends by cancellation alone."""
        try:
            while True:
                if not self._answers:
                    self._arrived.clear()
                    await self._arrived.wait()
                    await self._gather()
                for key, ids in self._engine.step():
                    self._answers.pop(key).set_result(ids)
                for _ in range(_SETTLING_ROUNDS):
                    await asyncio.sleep(0)
        finally:
            self._listener.close()

    async def _gather(self):
        waiting = 0
        while self._engine.gather_seconds and len(self._answers) > waiting:
            waiting = len(self._answers)
            await asyncio.sleep(self._engine.gather_seconds)

    async def _serve_connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                headers = {name.lower(): value.strip() for name, _, value in
                           (line.partition(":") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, answer = await self._answer(method, path, body)
                text = json.dumps(answer).encode()
                writer.write(f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/"
                             f"json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is done
        finally:
            writer.close()

    async def _answer(self, method, path, body):
        if (method, path) == ("GET", "/health"):
            return 200, {}
        if (method, path) != ("POST", "/v1/completions"):
            return 404, {"error": {"message": f"no {method} {path} here"}}
        try:
            request = read_request(body)
        except ValueError as problem:
            return 400, {"error": {"message": str(problem)}}
        key, self._next_key = self._next_key, self._next_key + 1
        self._answers[key] = future = asyncio.get_running_loop().create_future()
        self._engine.add(key, request)
        self._arrived.set()
        return 200, completion(request, await future)


def parser(about):
    """The options that every such server has."""
    options = argparse.ArgumentParser(description=about)
    options.add_argument("--model", type=pathlib.Path, required=True, help="folder of the model")
    options.add_argument("--threads", type=int, required=True)
    options.add_argument("--concurrent", type=int, required=True, help="requests at once")
    options.add_argument("--context", type=int, required=True, help="tokens of one request")
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, required=True)
    return options


def serve(engine, host, port):
    async def both():
        server = Server(engine)
        await server.listen(host, port)
        await server.run()

    asyncio.run(both())
