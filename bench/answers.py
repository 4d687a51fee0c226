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
    alone_again: int  # other answers when asked for alone a second time; None: not asked
    together: int     # other answers when all were asked for at once


def token_prompts(url):
    """The prompts as the ids that a server with the model's tokenizer gives them: every engine is
    asked in these, so that all have the same."""
    answers = [httpx.post(f"{url}/tokenize", json={"content": prompt, "add_special": True},
                          timeout=60) for prompt in prompts()]
    return [answer.raise_for_status().json()["tokens"] for answer in answers]


async def _answer(client, url, prompt, tokens, extra_fields):
    try:
        answer = await client.post(f"{url}/v1/completions", json={
            "prompt": prompt, "max_tokens": tokens, "temperature": 0, **extra_fields})
    except httpx.TransportError as problem:
        raise load.RequestFailed(f"{url}: no answer ({problem!r})") from problem
    if answer.status_code != 200:
        raise load.RequestFailed(f"{url}: {answer.status_code} {answer.text[:400]}")
    return answer.json()["choices"][0]["text"]


async def _count(url, asked, tokens, extra_fields, twice):
    limits = httpx.Limits(max_connections=len(asked))
    async with httpx.AsyncClient(timeout=900, limits=limits) as client:
        def answer(prompt):
            return _answer(client, url, prompt, tokens, extra_fields)

        alone = [await answer(prompt) for prompt in asked]
        again = [await answer(prompt) for prompt in asked] if twice else None
        together = await asyncio.gather(*map(answer, asked))
    return Changes(len(asked), _different(alone, again) if twice else None,
                   _different(alone, together))


def _different(first, second):
    return sum(one != other for one, other in zip(first, second, strict=True))


def count_changes(url, asked, tokens, extra_fields, twice=True):
    """`asked` are lists of token ids; `twice`: also alone once more, which takes as long again."""
    return asyncio.run(_count(url, asked, tokens, extra_fields, twice))
