"""Writes tests/golden/models: tiny seeded models of every family with their logits.

    make_golden.py [NAME ...]        # all of them without a name

For each model: config.json, weights (safetensors, and GGUF written with PyPI's gguf) and
golden.safetensors with
  ids            prompt and the greedy continuation
  plain          logits of every position, FP32 eager attention
  rounded        the same with all that the cache keeps rounded to BF16
The weights are values that BF16 (and F16) represent exactly, so that every file type holds the same
model. Seeds rise until every greedy step's best token leads by 5 % of the largest logit.
"""

import contextlib
import json
import pathlib
import shutil
import sys

import gguf
import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file

import kv_rounding

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "models"
PROMPT_TOKENS = 40
STEPS = 8
LEAD = 5e-2
GAP = 2e-2
NOISY_RUNS = 6

BASE = dict(vocab_size=160, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-2,
            max_position_embeddings=1024, bos_token_id=1, eos_token_id=2)


def rope(theta, **scaling):
    return dict(rope_parameters=dict(dict(rope_type="default", rope_theta=theta), **scaling))


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LATENT = dict(BASE, num_hidden_layers=3, num_key_value_heads=4, q_lora_rank=48, kv_lora_rank=40,
              qk_nope_head_dim=24, qk_rope_head_dim=16, v_head_dim=20, n_routed_experts=8,
              num_experts_per_tok=2, moe_intermediate_size=40, n_shared_experts=1,
              first_k_dense_replace=1, routed_scaling_factor=2.5, n_group=1, topk_group=1)
INDEXER = dict(index_topk=4, index_n_heads=8, index_head_dim=32)
YARN_GAIN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32,
                 beta_slow=1, mscale=1.0, mscale_all_dim=1.0)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)

# name, architecture, configuration, file type, shards, also as GGUF
MODELS = [
    ("llama", "Llama", dict(BASE, **rope(5e5, **LLAMA3)), torch.bfloat16, 1, True),
    ("llama_odd", "Llama",
     dict(BASE, vocab_size=131, hidden_size=40, intermediate_size=52, num_attention_heads=5,
          num_key_value_heads=1, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
          **rope(1e4, rope_type="linear", factor=2.0)), torch.float32, 1, False),
    ("qwen2", "Qwen2", dict(BASE, tie_word_embeddings=True, **rope(1e6)), torch.bfloat16, 3, True),
    ("qwen2_yarn", "Qwen2",
     dict(BASE, num_hidden_layers=1, tie_word_embeddings=True, **rope(1e4, **YARN)),
     torch.float16, 1, False),
    ("qwen3_moe", "Qwen3Moe",
     dict(BASE, head_dim=24, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=40,
          norm_topk_prob=True, mlp_only_layers=[1], num_hidden_layers=3, **rope(1e6)),
     torch.bfloat16, 1, False),
    ("glm4_moe", "Glm4Moe",
     dict(BASE, head_dim=32, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=40,
          n_shared_experts=1, first_k_dense_replace=1, num_hidden_layers=3, n_group=2, topk_group=1,
          routed_scaling_factor=2.5, use_qk_norm=True, attention_bias=True,
          **rope(1e6, partial_rotary_factor=0.5)), torch.bfloat16, 1, False),
    ("deepseek_v3", "DeepseekV3", dict(dict(LATENT, n_group=2), **rope(1e4, **YARN_GAIN)),
     torch.bfloat16, 1, False),
    ("deepseek_v32", "DeepseekV32",
     dict(dict(LATENT, n_group=2), **INDEXER, **rope(1e4, **YARN_GAIN)),
     torch.bfloat16, 1, False),
    ("glm_moe_dsa", "GlmMoeDsa",
     dict(LATENT, **INDEXER, **rope(8e6), num_hidden_layers=6,
          indexer_types="full full shared shared full shared".split()), torch.bfloat16, 1, False),
    ("kimi_k25", "Kimi_K25",
     dict(text_config=dict(LATENT, model_type="kimi_k2", rope_theta=5e4,
                           rope_scaling=dict(YARN_GAIN, type="yarn")),
          tie_word_embeddings=False, projection_hidden_size=32,
          vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                             num_attention_heads=2, pos_emb_height=4, pos_emb_width=4,
                             pos_emb_time=2)), torch.bfloat16, 1, False),
    ("qwen3", "Qwen3", dict(BASE, head_dim=24, tie_word_embeddings=True, **rope(1e6)),
     torch.bfloat16, 1, True),
]


EXPERTS = {name: dict(experts_implementation="eager")
           for name in ("Qwen3Moe", "Glm4Moe", "DeepseekV3", "DeepseekV32", "GlmMoeDsa",
                        "Kimi_K25")}


def representable(tensor):
    """Rounds to BF16 and drops what F16 could not hold as a normal number."""
    rounded = tensor.bfloat16().float()
    return torch.where(rounded.abs() < 2.0 ** -14, torch.zeros(()), rounded)


def text_config(config):
    return config.get("text_config", config)


def class_name(architecture):
    return architecture + ("ForConditionalGeneration" if "Kimi" in architecture else "ForCausalLM")


def seeded_model(architecture, config, seed):
    model_class = getattr(transformers, class_name(architecture))
    config_class = getattr(transformers, architecture + "Config")
    model = model_class._from_config(config_class(**config), dtype=torch.float32,
                                     attn_implementation="eager",
                                     **EXPERTS.get(architecture, {})).eval()
    torch.manual_seed(seed)
    for name, tensor in model.state_dict().items():
        if "norm" in name:
            tensor.uniform_(0.5, 1.5)
        elif name.endswith("correction_bias"):
            tensor.uniform_(-1.2, -1.0)  # a wrong mask of groups shows
        else:
            tensor.normal_(0, 0.1 if name.endswith("bias") else 0.15)
        tensor.copy_(representable(tensor))
    return model


def logits(model, rounds, ids):
    cache = kv_rounding.RoundedCache(config=model.config) if rounds else None
    return model(torch.tensor([ids]), cache=cache, use_cache=rounds).logits[0]


@contextlib.contextmanager
def noisy_activations(experts):
    """What enters a product is off by as much as a tile unit's rounding to BF16 makes it, but for
    the router's. A model whose experts are chosen by more than that is one to compare with."""
    exact = torch.nn.functional.linear

    def linear(x, weight, bias=None):
        noise = 1 + 2.0 ** -9 * (2 * torch.rand_like(x) - 1)
        return exact(x if weight.shape[0] == experts else x * noise, weight, bias)

    torch.nn.functional.linear = linear
    try:
        yield
    finally:
        torch.nn.functional.linear = exact


def greedy(model, rounds, vocabulary):
    """Prompt and continuation, the logits of every position, and the smallest lead."""
    ids = [(37 * i + 11) % (vocabulary - 3) + 3 for i in range(PROMPT_TOKENS)]
    for _ in range(STEPS):
        ids.append(int(logits(model, rounds, ids)[-1].argmax()))
    rows = logits(model, rounds, ids)
    best = rows[PROMPT_TOKENS - 1:-1].topk(2)[0]
    return ids, rows, float((best[:, 0] - best[:, 1]).min() / rows.abs().max())


def search(architecture, config):
    for seed in range(1, 5000):
        model = seeded_model(architecture, config, seed)
        ids, rounded, lead = greedy(model, True, text_config(config)["vocab_size"])
        if lead < LEAD:
            continue
        plain_ids, plain, lead = greedy(model, False, text_config(config)["vocab_size"])
        # Where rounding tips a router, the two differ by what other experts say; where it tips an
        # indexer, by what other positions hold, and no seed is free of that.
        gap = float((plain - rounded).abs().max() / plain.abs().max())
        if "index_topk" in config:
            return seed, model, ids, plain, rounded
        if lead < LEAD or plain_ids != ids or gap > GAP:
            continue
        with noisy_activations(text_config(config).get("n_routed_experts", 0)):
            noisy = torch.stack([logits(model, True, ids) for _ in range(NOISY_RUNS)])
        if float((noisy - rounded).abs().max() / rounded.abs().max()) <= GAP:
            return seed, model, ids, plain, rounded
    raise SystemExit(f"{architecture}: no seed with clear greedy steps")


def published(state):
    """Names and shapes of published files: transformers keeps a layer's experts in one tensor and
    calls the parts of Kimi K2.5 otherwise."""
    out = {}
    for name, tensor in state.items():
        name = name.replace("model.language_model.", "language_model.model.")
        name = name.replace("model.vision_tower.", "vision_tower.")
        name = name.replace("model.multi_modal_projector.", "mm_projector.")
        name = name.replace("model.mm_projector.", "mm_projector.")
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name] = tensor
            continue
        stem = name.rpartition(".")[0]
        for i, expert in enumerate(tensor):
            if name.endswith("down_proj"):
                out[f"{stem}.{i}.down_proj.weight"] = expert
            else:
                gate, up = expert.chunk(2)
                out[f"{stem}.{i}.gate_proj.weight"] = gate
                out[f"{stem}.{i}.up_proj.weight"] = up
    return out


def save_weights(model, dtype, shards, directory):
    tied = model.config.get_text_config().tie_word_embeddings
    prefix = "language_model." if hasattr(model.config, "text_config") else ""
    tensors = {prefix + k if k == "lm_head.weight" else k: v.to(dtype).contiguous()
               for k, v in published(model.state_dict()).items()
               if not (tied and k == "lm_head.weight")}
    if shards == 1:
        save_file(tensors, directory / "model.safetensors", {"format": "pt"})
        return
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {k: v for i, (k, v) in enumerate(tensors.items()) if i % shards == shard}
        save_file(part, directory / name, {"format": "pt"})
        weight_map.update({k: name for k in part})
    total = sum(v.nbytes for v in tensors.values())
    index = dict(metadata=dict(total_size=total), weight_map=weight_map)
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


def interleave(tensor, heads):
    """Row order of GGUF's llama architecture: rotation pairs next to each other in every head."""
    rows = tensor.shape[0]
    return tensor.reshape(heads, 2, rows // heads // 2, -1).transpose(1, 2).reshape(tensor.shape)


def llama3_divisors(config):
    """rope_freqs.weight: what each inverse frequency is divided by."""
    p = config.rope_parameters
    dim = config.hidden_size // config.num_attention_heads
    inverse = 1.0 / p["rope_theta"] ** (torch.arange(0, dim, 2).double() / dim)
    wave = 2 * torch.pi / inverse
    original, low, high = (p["original_max_position_embeddings"], p["low_freq_factor"],
                           p["high_freq_factor"])
    smooth = (original / wave - low) / (high - low)
    between = 1 / ((1 - smooth) / p["factor"] + smooth)
    divisors = torch.where(wave < original / high, torch.ones(()).double(),
                           torch.where(wave > original / low,
                                       torch.full((), p["factor"]).double(), between))
    return divisors.float()


GGUF_ARCH = {"Llama": gguf.MODEL_ARCH.LLAMA, "Qwen2": gguf.MODEL_ARCH.QWEN2,
             "Qwen3": gguf.MODEL_ARCH.QWEN3}


def save_gguf(model, architecture, path):
    config = model.config
    arch = GGUF_ARCH[architecture]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    head_dim = getattr(config, "head_dim", None)
    if head_dim:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"t{i}" for i in range(config.vocab_size)])
    writer.add_token_types([1] * config.vocab_size)
    writer.add_token_merges(["t 1", "t 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    if config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config).numpy())
    for name, tensor in model.state_dict().items():
        if config.tie_word_embeddings and name == "lm_head.weight":
            continue
        if architecture == "Llama" and "q_proj" in name:
            tensor = interleave(tensor, config.num_attention_heads)
        if architecture == "Llama" and "k_proj" in name:
            tensor = interleave(tensor, config.num_key_value_heads)
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if tensor.dim() == 1:
            writer.add_tensor(target, tensor.numpy())
            continue
        raw = tensor.bfloat16().contiguous().view(torch.int16).numpy().view(numpy.uint8)
        writer.add_tensor(target, raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or [model[0] for model in MODELS]
    for name, architecture, config, dtype, shards, as_gguf in MODELS:
        if name not in wanted:
            continue
        directory = OUT / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        seed, model, ids, plain, rounded = search(architecture, config)
        model.config.architectures = [class_name(architecture)]
        model.config.dtype = dtype
        model.config.save_pretrained(directory)
        save_weights(model, dtype, shards, directory)
        if as_gguf:
            save_gguf(model, architecture, directory / "model.gguf")
        save_file(dict(ids=torch.tensor(ids, dtype=torch.int32), plain=plain.contiguous(),
                       rounded=rounded.contiguous()), directory / "golden.safetensors")
        gap = float((plain - rounded).abs().max() / plain.abs().max())
        print(f"{name}: seed {seed}, rounding K and V moves logits by {gap:.1e} of the largest")


if __name__ == "__main__":
    main()
