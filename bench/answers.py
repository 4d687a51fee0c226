"""How many greedy answers change when the server is busy with others.

Each prompt is asked for alone, alone again, and together with all others at once. A server whose
arithmetic depends on who shares the batch gives other tokens for some of them.
"""

import asyncio
import dataclasses

import httpx

import load
import machine

TOKENS = 64
# One prompt a line, from three to 200 words, line breaks written \n.
_FILE = machine.ROOT / "bench" / "answer_prompts.txt"


def prompts():
    return [line.replace("\\n", "\n") for line in _FILE.read_text(encoding="utf-8").splitlines()]


@dataclasses.dataclass(frozen=True)
class Changes:
    asked: int
    alone_again: int  # other answers when asked for alone a second time
    together: int     # other answers when all were asked for at once


async def _answer(client, url, prompt, extra_fields):
    try:
        answer = await client.post(f"{url}/v1/completions", json={
            "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, **extra_fields})
    except httpx.TransportError as problem:
        raise load.RequestFailed(f"{url}: no answer ({problem!r})") from problem
    if answer.status_code != 200:
        raise load.RequestFailed(f"{url}: {answer.status_code} {answer.text[:400]}")
    return answer.json()["choices"][0]["text"]


async def _count(url, asked, extra_fields):
    limits = httpx.Limits(max_connections=len(asked))
    async with httpx.AsyncClient(timeout=900, limits=limits) as client:
        alone = [await _answer(client, url, prompt, extra_fields) for prompt in asked]
        again = [await _answer(client, url, prompt, extra_fields) for prompt in asked]
        together = await asyncio.gather(*(_answer(client, url, prompt, extra_fields)
                                          for prompt in asked))
    return Changes(len(asked), _different(alone, again), _different(alone, together))


def _different(first, second):
    return sum(one != other for one, other in zip(first, second, strict=True))


def count_changes(url, extra_fields):
    return asyncio.run(_count(url, prompts(), extra_fields))
