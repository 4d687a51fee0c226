"""Writes tests/golden/smollm2_greedy.json: greedy continuations of real prompts by SmolLM2-135M.

Usage: make_smollm2_greedy.py SmolLM2-135M-Instruct.Q4_1.gguf

The reference is independent of Bulkhead: PyPI's gguf decodes the file, the weights are rounded to
BF16 (what Bulkhead holds) and put into a transformers LlamaForCausalLM in FP32 with eager attention
and an unrounded cache. `leads` is how far the chosen token leads the next, in logits.
"""

import json
import pathlib
import sys

import gguf
import numpy
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "smollm2_greedy.json"
STEPS = 32
QUESTIONS = [
    "What is the capital of France?",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Explain in two sentences why the sky is blue.",
    "Translate to French: The weather is nice today.",
    "List three healthy breakfast ideas.",
    "If I have 12 apples and give away 5, how many are left?",
    "Who wrote Romeo and Juliet?",
]
PLAIN = "The quick brown fox jumps over the lazy dog. Once upon a time, in a small village"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def field(reader, key):
    return reader.fields[key].contents()


def tokenizer_of(reader):
    """The file's own vocabulary with SmolLM2's splitting: single digits, then GPT-2's words."""
    tokens = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in field(reader, "tokenizer.ggml.merges")]
    out = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    out.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    out.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return out


def half_split(tensor, heads):
    """Undoes the row order of GGUF's llama architecture."""
    rows = tensor.shape[0]
    return tensor.reshape(heads, rows // heads // 2, 2, -1).transpose(1, 2).reshape(tensor.shape)


def load(reader):
    heads, kv_heads = (int(field(reader, "llama.attention." + k))
                       for k in ("head_count", "head_count_kv"))
    config = LlamaConfig(
        vocab_size=len(field(reader, "tokenizer.ggml.tokens")),
        hidden_size=int(field(reader, "llama.embedding_length")),
        intermediate_size=int(field(reader, "llama.feed_forward_length")),
        num_hidden_layers=int(field(reader, "llama.block_count")),
        num_attention_heads=heads, num_key_value_heads=kv_heads,
        rms_norm_eps=float(field(reader, "llama.attention.layer_norm_rms_epsilon")),
        max_position_embeddings=int(field(reader, "llama.context_length")),
        rope_parameters=dict(rope_type="default",
                             rope_theta=float(field(reader, "llama.rope.freq_base"))),
        tie_word_embeddings=True)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    model = LlamaForCausalLM._from_config(config, dtype=torch.float32,
                                          attn_implementation="eager").eval()
    data = {t.name: torch.from_numpy(gguf.dequantize(t.data, t.tensor_type).astype(numpy.float32))
            for t in reader.tensors}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        source = data.pop(names.get_name(name, try_suffixes=(".weight",)))
        if "q_proj" in name:
            source = half_split(source, heads)
        if "k_proj" in name:
            source = half_split(source, kv_heads)
        # Norms stay FP32, as Bulkhead keeps them.
        tensor.copy_(source if source.dim() == 1 else source.bfloat16().float())
    assert not data, list(data)
    return model


@torch.no_grad()
def greedy(model, prompt):
    ids, leads, cache = list(prompt), [], None
    step = torch.tensor([ids])
    for _ in range(STEPS):
        out = model(step, cache=cache, use_cache=True)
        cache, best = out.cache, out.logits[0, -1].topk(2)
        leads.append(round(float(best.values[0] - best.values[1]), 4))
        ids.append(int(best.indices[0]))
        step = torch.tensor([[ids[-1]]])
    return ids[len(prompt):], leads


@torch.no_grad()
def main(path):
    torch.set_num_threads(1)
    reader = gguf.GGUFReader(path)
    tokenizer = tokenizer_of(reader)
    model = load(reader)
    prompts = [f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{q}<|im_end|>\n"
               "<|im_start|>assistant\n" for q in QUESTIONS] + [PLAIN]
    cases = []
    for text in prompts:
        prompt = tokenizer.encode(text).ids
        ids, leads = greedy(model, prompt)
        cases.append({"text": text, "prompt": prompt, "ids": ids, "leads": leads})
        print(repr(tokenizer.decode(ids, skip_special_tokens=False)), min(leads))
    OUT.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
