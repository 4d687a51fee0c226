"""Steps of exactly as many tokens as asked for, of whole documents, with no padding between.

What a step holds depends on the seed, the number of the step and how well each task goes so far:
tasks that still fail come more often. The habit of looking back is drilled until it is there.
"""

import dataclasses
import random

import drills
import tasks
import vocabulary
from chat_format import Document, GIVEN, to_document

# Shares of documents before they are tilted towards what still fails. A choice says few tokens, so
# it takes many to weigh as much as the rest.
SHARES = {"vault": 3.0, "vault_far": 1.0, "echo": 1.0, "record": 0.7, "problem": 0.2,
          "choice": 4.0, "tools": 2.0, "repeat": 0.3, "look_up": 1.0}
# A step never loses a task for good: what is not practised is forgotten.
LEAST = 0.15
SMOOTHING = 0.99  # of the score of a task, a document at a time
# Until `look_up` is right this often, most documents are drills and nothing is far away.
HABIT = 0.85
HABIT_LOST = 0.5  # below this it is drilled again
DRILL_BOOST = 30.0
REACH = (500, 3800)  # characters that vault_far starts with, and that it ends with


@dataclasses.dataclass
class Progress:
    """How often each task is right in training, smoothed: tasks by whole answers of a document,
    drills by tokens. It is saved with a run."""
    right: dict = dataclasses.field(default_factory=lambda: dict.fromkeys(SHARES, 0.0))
    has_habit: bool = False

    def note(self, task, score):
        if task in self.right:
            self.right[task] += (1 - SMOOTHING) * (score - self.right[task])
        self.has_habit = self.right["look_up"] >= (HABIT_LOST if self.has_habit else HABIT)

    def share(self, task):
        share = SHARES[task] * (LEAST + 1 - self.right[task])
        if task in drills.DRILLS:
            return share if self.has_habit else share * DRILL_BOOST
        if task == "vault_far":
            # Far comes after near.
            return share if self.has_habit and self.right["vault"] > 0.3 else 0.0
        return share

    def reach(self):
        near, far = REACH
        return int(near + (far - near) * min(1.0, 1.25 * self.right["vault_far"]))


class Feed:
    """Makes the documents of each step; `texts`, token lists of plain text, fill a step up."""

    def __init__(self, encoding, filler, texts, seed):
        self.encoding, self.filler, self.texts, self.seed = encoding, filler, texts, seed
        self.left_over = []

    def step(self, number, budget, progress):
        """Documents of `budget` tokens in all, long ones put off to the next step."""
        rng = random.Random(f"step/{self.seed}/{number}")
        waiting, self.left_over = self.left_over, []
        chosen, room, misses = [], budget, 0
        shares = {task: progress.share(task) for task in SHARES}
        while room > 0 and misses < 3:
            document = waiting.pop() if waiting else self._draw(rng, shares, progress.reach())
            if len(document.ids) <= room:
                chosen.append(document)
                room -= len(document.ids)
            elif len(document.ids) <= budget:
                self.left_over.append(document)
                misses += 1
        self.left_over += waiting
        if room:
            chosen.append(self._plain(rng, room))
        return chosen

    def _draw(self, rng, shares, reach):
        task = rng.choices(list(shares), list(shares.values()))[0]
        if task in drills.DRILLS:
            return drills.DRILLS[task](rng, vocabulary.BASE)
        options = {}
        if task == "vault_far":
            options["reach"] = rng.randint(200, reach)
        seed = rng.randrange(tasks.EVALUATION_SEED)
        return to_document(self.encoding,
                           tasks.training_example(task, seed, self.filler, **options))

    def _plain(self, rng, length):
        if self.texts:
            text = rng.choice(self.texts)
            start = rng.randrange(max(1, len(text) - length))
            ids = text[start:start + length]
        else:
            ids = self.encoding.encode_ordinary(self.filler(rng, 8 * length + 100))[:length]
        return Document("text", ids, [GIVEN] * len(ids))
