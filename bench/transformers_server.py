#!/usr/bin/env python3
"""generate() of transformers behind the endpoint of peer_server.py: the floor of the comparison.

It has no continuous batching: those that wait when it is idle are padded on the left and generated
together, and who comes meanwhile waits for the next batch.
"""

import torch
import transformers

import peer_server


class Engine:
    gather_seconds = 0.03

    def __init__(self, options):
        torch.set_num_threads(options.threads)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            options.model, dtype=getattr(torch, options.dtype)).eval()
        eos = self._model.generation_config.eos_token_id
        self._eos = eos if isinstance(eos, list) else [eos]
        self._concurrent = options.concurrent
        self._waiting = []

    def add(self, key, request):
        self._waiting.append((key, request))

    def step(self):
        ignore_eos = self._waiting[0][1].ignore_eos
        batch = [(key, request) for key, request in self._waiting
                 if request.ignore_eos == ignore_eos][:self._concurrent]
        taken = {key for key, _ in batch}
        self._waiting = [one for one in self._waiting if one[0] not in taken]
        width = max(len(request.prompt) for _, request in batch)
        ids = torch.tensor([[0] * (width - len(request.prompt)) + request.prompt
                            for _, request in batch])
        mask = torch.tensor([[0] * (width - len(request.prompt)) + [1] * len(request.prompt)
                             for _, request in batch])
        config = transformers.GenerationConfig(
            do_sample=False, max_new_tokens=max(request.tokens for _, request in batch),
            pad_token_id=self._eos[0], eos_token_id=None if ignore_eos else self._eos)
        with torch.inference_mode():
            rows = self._model.generate(ids, attention_mask=mask, generation_config=config)
        return [(key, self._cut(row[width:].tolist()[:request.tokens], ignore_eos))
                for (key, request), row in zip(batch, rows, strict=True)]

    def _cut(self, ids, ignore_eos):
        """Without what pads an answer that ended before others."""
        if not ignore_eos:
            for at, one in enumerate(ids):
                if one in self._eos:
                    return ids[:at + 1]
        return ids


def main():
    parser = peer_server.parser(__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), required=True)
    options = parser.parse_args()
    peer_server.serve(Engine(options), options.host, options.port)


if __name__ == "__main__":
    main()
