"""Writes golden_depth.safetensors beside some of make_golden.py's models: logits at depth.

    make_depth.py [NAME ...]

  ids        TOKENS tokens
  positions  which rows were kept: around every multiple of the lengths at which something changes
             (a page, a cut of attention, the context that rotary scaling was made for)
  rounded    logits of those rows, with all that the cache keeps rounded to BF16
"""

import sys

import torch
import transformers
from safetensors.torch import save_file

import kv_rounding
from make_golden import OUT

NAMES = ["llama", "qwen2_yarn", "deepseek_v3"]
TOKENS = 1000
BOUNDARIES = [16, 32, 64, 128, 256, 512, 768]


def positions():
    near = {b + d for b in BOUNDARIES for d in (-1, 0, 1)}
    return sorted(near | {0, 1, TOKENS // 2, TOKENS - 2, TOKENS - 1})


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or NAMES:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            OUT / name, dtype=torch.float32, attn_implementation="eager").eval()
        vocabulary = model.config.vocab_size
        ids = [(37 * i + i * i // 7 + 11) % (vocabulary - 3) + 3 for i in range(TOKENS)]
        cache = kv_rounding.RoundedCache(config=model.config)
        logits = model(torch.tensor([ids]), cache=cache, use_cache=True).logits[0]
        rows = positions()
        save_file(dict(ids=torch.tensor(ids, dtype=torch.int32),
                       positions=torch.tensor(rows, dtype=torch.int32),
                       rounded=logits[rows].contiguous()), OUT / name / "golden_depth.safetensors")
        print(f"{name}: {len(rows)} rows, largest logit {float(logits.abs().max()):.2f}")


if __name__ == "__main__":
    main()
