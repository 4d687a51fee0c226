"""Bulkhead's side of the comparison: the render_lines program, fed in batches."""
import json
import subprocess


class Answer:
    def __init__(self, reply):
        self.error = reply.get("error")
        self.code = reply.get("code")
        self.segments = reply.get("segments")

    @property
    def text(self):
        return None if self.segments is None else "".join(text for _, text in self.segments)


def render(tool, requests):
    """Answers in order; a crash is an error of the test."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([tool], input=lines.encode(), capture_output=True)
    if done.returncode != 0:
        raise AssertionError(f"render_lines ended with {done.returncode}: "
                             f"{done.stderr.decode(errors='replace')[-2000:]}")
    replies = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    if len(replies) != len(requests):
        raise AssertionError(f"{len(replies)} answers to {len(requests)} requests")
    return [Answer(reply) for reply in replies]
