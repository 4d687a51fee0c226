#!/usr/bin/env python3
"""Trains the small model and keeps the best checkpoint so far: train.py OUT [--minutes N].

Started again with the same OUT it goes on where it was. OUT/best is the checkpoint to take,
OUT/best/scores.json its scores on held-out examples, OUT/log.jsonl the course of the run.
Exit code 0: the run is over; 1: it was asked to stop before.
"""

import argparse
import dataclasses
import fcntl
import json
import os
import pathlib
import random
import signal
import sys
import time

import torch
import torch.nn.functional as F

import chat_format
import checkpoint
import feed
import held_out
import prose
import tasks
import vocabulary
from network import Network
from optimizers import Learner

WARM_UP_STEPS = 100
# The rates stay high until the goal is reached or time runs out, then fall to nearly nothing.
FALL_SHARE = 0.2  # of the time until then
FALL_MINUTES_LEAST = 10
LOG_STEPS = 25


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path, help="folder of the run")
    parser.add_argument("--minutes", type=float, default=300, help="training time at most, in all")
    parser.add_argument("--tokens-per-step", type=int, default=2048)
    parser.add_argument("--goal", type=float, default=0.92,
                        help="share of right answers, of every required set, that ends the run")
    parser.add_argument("--evaluate-steps", type=int, default=1000,
                        help="steps between evaluations, each of which costs some 40 steps")
    parser.add_argument("--save-minutes", type=float, default=4)
    parser.add_argument("--examples", type=int, default=100, help="of each set, to evaluate on")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--bf16", action="store_true",
                        help="matrix products in BF16, for processors that have them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=pathlib.Path, nargs="*", default=[],
                        help="plain text files to mix in, for harder filler")
    return parser.parse_args()


@dataclasses.dataclass
class Course:
    """How far a run has come. All of it is saved."""
    steps: int = 0
    tokens: int = 0
    minutes: float = 0.0
    fall_began: float | None = None  # minute in which the rates began to fall
    best: tuple = (-1.0, -1.0)
    progress: feed.Progress = dataclasses.field(default_factory=feed.Progress)

    def fall_end(self, limit):
        length = max(FALL_MINUTES_LEAST, FALL_SHARE * self.fall_began)
        return min(limit, self.fall_began + length) if self.fall_began < limit else limit

    def scale(self, limit):
        """Of the learning rates, now."""
        if self.fall_began is None:
            return min(1.0, (self.steps + 1) / WARM_UP_STEPS)
        left = self.fall_end(limit) - self.minutes
        return max(0.02, left / max(1e-6, self.fall_end(limit) - self.fall_began))

    def is_over(self, limit):
        return self.fall_began is not None and self.minutes >= self.fall_end(limit)


def learn_vocabulary(folder, texts):
    """From conversations of every task, prose and some of the given text."""
    rng = random.Random(0)
    said = [text for text in (t[:100_000] for t in texts)]
    for _ in range(1500):
        for task in tasks.MAKERS:
            options = {"reach": 200} if task == "vault_far" else {}
            made = tasks.training_example(task, rng.randrange(tasks.EVALUATION_SEED),
                                          prose.own_prose, **options)
            said += [text for text, is_markup, _ in chat_format.pieces(made) if not is_markup]
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary.write(vocabulary.learn_ranks(said), folder)


class Batch:
    """The documents of a step as one row of tokens, each token to predict the next."""

    def __init__(self, documents):
        self.documents = documents
        self.lengths = [len(document.ids) for document in documents]
        self.ids = torch.tensor([i for document in documents for i in document.ids])
        weights = torch.tensor([w for document in documents for w in document.weights])
        starts = torch.tensor(self.lengths).cumsum(0)[:-1]
        weights[0] = 0.0
        weights[starts] = 0.0  # nothing precedes the first token of a document
        self.targets, self.weights = self.ids[1:], weights[1:]
        self.owner = torch.repeat_interleave(torch.arange(len(documents)),
                                             torch.tensor(self.lengths))[1:]

    def note(self, logits, progress):
        """Enters how the documents went: drills by tokens, the rest all or nothing."""
        said = self.weights == chat_format.SAID
        right = (logits[said].argmax(-1) == self.targets[said]).float()
        owner, count = self.owner[said], len(self.documents)
        total = torch.zeros(count).index_add_(0, owner, torch.ones_like(right))
        hits = torch.zeros(count).index_add_(0, owner, right)
        for document, all_said, well_said in zip(self.documents, total.tolist(), hits.tolist()):
            if all_said:
                is_drill = document.task in feed.drills.DRILLS
                share = well_said / all_said
                progress.note(document.task, share if is_drill else float(share == 1.0))


class Run:
    def __init__(self, options):
        self.options, self.out = options, options.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.out / "lock", "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"{self.out}: another training is still at work there")
        texts = [path.read_text(encoding="utf-8") for path in options.text]
        if not (self.out / "tokenizer" / "tiktoken.model").exists():
            learn_vocabulary(self.out / "tokenizer", texts)
        self.encoding = vocabulary.read(self.out / "tokenizer")
        torch.manual_seed(options.seed)
        self.network = Network()
        self.learner = Learner(self.network)
        self.course = Course()
        plain = [ids for ids in map(self.encoding.encode_ordinary, texts)
                 if len(ids) > options.tokens_per_step]
        self.feed = feed.Feed(self.encoding, prose.mixed(texts), plain, options.seed)
        self.stop_asked = False
        if (self.out / "run.pt").exists():
            self._load()

    def _load(self):
        state = torch.load(self.out / "run.pt", weights_only=False)
        self.network.load_state_dict(state["network"])
        self.learner.load(state["learner"])
        self.course = state["course"]
        if self.course.minutes < self.options.minutes / (1 + FALL_SHARE):
            self.course.fall_began = None  # more time was given, or a higher goal

    def save(self):
        state = {"network": self.network.state_dict(), "learner": self.learner.state(),
                 "course": self.course}
        torch.save(state, self.out / "run.pt.draft")
        (self.out / "run.pt.draft").replace(self.out / "run.pt")

    def log(self, **fields):
        fields = {"time": time.strftime("%H:%M:%S"), "steps": self.course.steps,
                  "minutes": round(self.course.minutes, 1),
                  "tokens_m": round(self.course.tokens / 1e6, 2), **fields}
        with open(self.out / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")

    def step(self):
        """One step of learning: (loss of what the assistant said, was it right)."""
        course, options = self.course, self.options
        # Until the habit of looking back is there, it is steps that count.
        budget = options.tokens_per_step // (1 if course.progress.has_habit else 2)
        documents = self.feed.step(course.steps, budget, course.progress)
        batch = Batch(documents)
        self.network.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            logits = self.network(batch.ids, batch.lengths)[:-1]
        losses = F.cross_entropy(logits.float(), batch.targets, reduction="none")
        loss = (losses * batch.weights).sum() / batch.weights.sum()
        self.learner.zero_grad()
        loss.backward()
        self.learner.step(course.scale(options.minutes))
        self.network.balance()
        batch.note(logits.detach(), course.progress)
        course.steps += 1
        course.tokens += len(batch.ids)
        return losses.detach()[batch.weights == chat_format.SAID].mean().item()

    def evaluate(self):
        """Scores the averaged weights, as a file would hold them; exports them when best so far."""
        network = Network()
        network.load_state_dict(checkpoint.rounded(self.learner.average))
        scores = {name: score(network, self.encoding, name, self.options.examples)
                  for name in held_out.SETS}
        required = [scores[name] for name in held_out.REQUIRED]
        rank = (min(required), sum(scores.values()))
        if rank > self.course.best:
            self.course.best = rank
            checkpoint.write(self.learner.average, self.out / "tokenizer", self.out / "best")
            (self.out / "best" / "scores.json").write_text(json.dumps({
                "held_out_exact": scores, "examples_a_set": self.options.examples,
                "steps": self.course.steps, "tokens": self.course.tokens}, indent=1) + "\n")
        self.log(scores={name: round(value, 3) for name, value in scores.items()})
        return min(required)

    def train(self):
        """Until the goal and the fall after it, the time limit, or SIGTERM."""
        course, limit = self.course, self.options.minutes
        last_save = course.minutes
        losses, window, tokens = [], time.monotonic(), course.tokens
        while not course.is_over(limit) and not self.stop_asked:
            began = time.monotonic()
            losses.append(self.step())
            course.minutes += (time.monotonic() - began) / 60
            if course.fall_began is None and course.minutes >= limit / (1 + FALL_SHARE):
                course.fall_began = course.minutes
            if course.steps % LOG_STEPS == 0:
                now = time.monotonic()
                rate = (course.tokens - tokens) / (now - window)
                self.log(said=round(sum(losses) / len(losses), 4), tokens_per_s=round(rate),
                         right={t: round(r, 3) for t, r in course.progress.right.items()})
                losses, window, tokens = [], now, course.tokens
            if course.minutes - last_save >= self.options.save_minutes:
                self.save()
                last_save = course.minutes
            if course.steps % self.options.evaluate_steps == 0:
                if self.evaluate() >= self.options.goal and course.fall_began is None:
                    course.fall_began = course.minutes
                window = time.monotonic()
        self.save()
        if not self.stop_asked:
            self.evaluate()
            self.log(finished=True)


@torch.no_grad()
def score(network, encoding, name, count, budget=8192):
    """Share of examples whose every answer token is the likeliest after those before it.

    That is when greedy decoding gives exactly this answer, without decoding; an answer that is
    right in other words counts as wrong here.
    """
    network.eval()
    waiting, rights = [], []

    def flush():
        logits = network(torch.tensor([i for ids, _ in waiting for i in ids]),
                         [len(ids) for ids, _ in waiting])
        for (ids, prompt), part in zip(waiting, logits.split([len(ids) for ids, _ in waiting])):
            rights.append(bool((part[prompt - 1:-1].argmax(-1)
                                == torch.tensor(ids[prompt:])).all()))
        waiting.clear()

    for example in held_out.examples(name, count):
        prompt, _ = chat_format.encode(encoding, chat_format.prompt_pieces(example))
        ids, _ = chat_format.encode(encoding, chat_format.pieces(example))
        if waiting and sum(len(other) for other, _ in waiting) + len(ids) > budget:
            flush()
        waiting.append((ids, len(prompt)))
    flush()
    return sum(rights) / len(rights)


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    run = Run(options)

    def ask_to_stop(*_):
        run.stop_asked = True
    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    run.train()
    return 1 if run.stop_asked else 0


if __name__ == "__main__":
    sys.exit(main())
