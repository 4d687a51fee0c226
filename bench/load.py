"""The requests of the comparison, and what a server's speed is taken to be.

Prompts are token ids drawn at random, new ones for every request, so that both servers compute the
same number of tokens and neither can reuse a prefix. Decoding is greedy, of fixed length, and stops
for nothing. Requests are not streamed: what is timed is the server, not the parsing of events.
"""

import asyncio
import time

import httpx
import numpy as np


class RequestFailed(RuntimeError):
    pass


class Load:
    def __init__(self, vocabulary, seed):
        # The first ids are control tokens in some vocabularies and the last ones in others.
        self._low, self._high = 300, vocabulary - 300
        self._random = np.random.default_rng(seed)

    def prompts(self, count, tokens):
        return self._random.integers(self._low, self._high, size=(count, tokens)).tolist()


async def _send(client, url, prompt, tokens, extra_fields):
    try:
        answer = await client.post(f"{url}/v1/completions", json={
            "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
            **extra_fields})
    except httpx.TransportError as problem:
        raise RequestFailed(f"{url}: no answer ({problem!r})") from problem
    if answer.status_code != 200:
        raise RequestFailed(f"{url}: {answer.status_code} {answer.text[:400]}")
    usage = answer.json()["usage"]
    if usage["completion_tokens"] != tokens or usage["prompt_tokens"] != len(prompt):
        raise RequestFailed(f"{url}: asked for {len(prompt)} + {tokens} tokens, got {usage}")


async def _all(url, prompts, tokens, extra_fields):
    limits = httpx.Limits(max_connections=len(prompts))
    async with httpx.AsyncClient(timeout=900, limits=limits) as client:
        started = time.perf_counter()
        await asyncio.gather(*(_send(client, url, prompt, tokens, extra_fields)
                               for prompt in prompts))
        return time.perf_counter() - started


def seconds(url, prompts, tokens, extra_fields):
    """From sending all prompts at once to the last complete answer of `tokens` tokens."""
    return asyncio.run(_all(url, prompts, tokens, extra_fields))


def prefill_rate(url, prompts, extra_fields):
    """Prompt tokens per second until the first token, one request at a time."""
    total = sum(len(prompt) for prompt in prompts)
    return total / sum(seconds(url, [prompt], 1, extra_fields) for prompt in prompts)


def decode_rate(url, first, second, tokens, extra_fields):
    """Generated tokens per second of all requests together, after the first token of each.

    The time to the first token is measured on other prompts of equal length and taken off, so that
    prefill, which has a row of its own, is not counted twice.
    """
    to_first = seconds(url, first, 1, extra_fields)
    to_last = seconds(url, second, tokens, extra_fields)
    if to_last <= to_first:
        raise RequestFailed(f"{url}: {tokens} tokens took no longer than one ({to_last:.3f} s)")
    return len(second) * (tokens - 1) / (to_last - to_first)
