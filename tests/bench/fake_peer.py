"""An engine for peer_server.py without a model: its tokens follow from the prompt, one a step, or,
with --drifts, from how many requests the step has too. A prompt that begins with 13 ends early.
With --hold FIRST COUNT the requests from the FIRST-th on wait until there are COUNT of them."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import peer_server  # noqa: E402

END = 2


class Engine:
    gather_seconds = 0

    def __init__(self, drifts=False, hold=(0, 0)):
        self.batches = []  # requests in each step
        self._drifts = drifts
        self._first, self._count = hold
        self._running = {}
        self._came = 0

    def add(self, key, request):
        self._running[key] = (request, [])
        self._came += 1

    def step(self):
        if self._first < self._came < self._first + self._count:
            return []
        self.batches.append(len(self._running))
        finished = []
        for key, (request, ids) in list(self._running.items()):
            ids.append(self._next(request, ids))
            ended = ids[-1] == END and not request.ignore_eos
            if ended or len(ids) == request.tokens:
                finished.append((key, ids))
                del self._running[key]
        return finished

    def _next(self, request, ids):
        if request.prompt[0] == 13 and len(ids) == 2:
            return END
        drift = self.batches[-1] if self._drifts else 0
        return 100 + (sum(request.prompt) + 7 * len(ids) + drift) % 50


def main():
    parser = peer_server.parser(__doc__.splitlines()[0])
    parser.add_argument("--drifts", action="store_true")
    parser.add_argument("--hold", nargs=2, type=int, default=(0, 0), metavar=("FIRST", "COUNT"))
    options = parser.parse_args()
    peer_server.serve(Engine(options.drifts, options.hold), options.host, options.port)


if __name__ == "__main__":
    main()
