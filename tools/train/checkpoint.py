"""Between the network's own layout and a checkpoint as Kimi K2 publishes it (BF16 safetensors)."""

import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file

import chat_format
import vocabulary
from network import CONFIG

# Ours -> the checkpoint's, for what is the same matrix in both.
_LAYER_NAMES = {
    "attention_norm.weight": "input_layernorm.weight",
    "mlp_norm.weight": "post_attention_layernorm.weight",
    "attention.q_norm.weight": "self_attn.q_a_layernorm.weight",
    "attention.kv_norm.weight": "self_attn.kv_a_layernorm.weight",
    "attention.q_up": "self_attn.q_b_proj.weight",
    "attention.kv_up": "self_attn.kv_b_proj.weight",
    "attention.out": "self_attn.o_proj.weight",
    "mlp.router": "mlp.gate.weight",
    "mlp.bias": "mlp.gate.e_score_correction_bias",
}
_OUTER_NAMES = {"embedding": "model.embed_tokens.weight", "norm.weight": "model.norm.weight",
                "head": "lm_head.weight"}
_PROJECTIONS = {"gate": "gate_proj", "up": "up_proj", "out": "down_proj"}


def _files_of(name, value):
    """[(checkpoint name, tensor)] of one tensor of the network."""
    if name in _OUTER_NAMES:
        return [(_OUTER_NAMES[name], value)]
    _, index, rest = name.split(".", 2)
    layer = f"model.layers.{index}."
    if rest in _LAYER_NAMES:
        return [(layer + _LAYER_NAMES[rest], value)]
    if rest == "attention.down":
        rank = CONFIG["q_lora_rank"]
        return [(layer + "self_attn.q_a_proj.weight", value[:rank]),
                (layer + "self_attn.kv_a_proj_with_mqa.weight", value[rank:])]
    *path, projection = rest.split(".")
    projection = _PROJECTIONS[projection]
    if path == ["mlp", "shared"]:
        return [(f"{layer}mlp.shared_experts.{projection}.weight", value)]
    if value.ndim == 2:
        return [(f"{layer}mlp.{projection}.weight", value)]
    return [(f"{layer}mlp.experts.{index}.{projection}.weight", matrix)
            for index, matrix in enumerate(value)]


def to_checkpoint(state):
    """The network's tensors under the checkpoint's names and types."""
    out = {}
    for name, value in state.items():
        for spelled, tensor in _files_of(name, value):
            # The selection bias is told apart by differences that BF16 would swallow.
            kind = torch.float32 if spelled.endswith("_bias") else torch.bfloat16
            out[spelled] = tensor.detach().to(kind).contiguous().clone()
    return out


def from_checkpoint(tensors, template):
    """The inverse: a state for a network whose state_dict is `template`."""
    state = {}
    for name, value in template.items():
        found = [tensors[spelled].float() for spelled, _ in _files_of(name, value)]
        if value.ndim == 3:
            state[name] = torch.stack(found)
        else:
            state[name] = torch.cat(found) if len(found) > 1 else found[0]
    return state


def rounded(state):
    """The weights as the file will hold them: what is scored is what is published."""
    return from_checkpoint(to_checkpoint(state), state)


def write(state, tokenizer_folder, folder):
    """A whole checkpoint folder, put in place of an older one in one go."""
    folder = pathlib.Path(folder)
    draft = folder.with_name(folder.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    save_file(to_checkpoint(state), draft / "model.safetensors", metadata={"format": "pt"})
    (draft / "model.safetensors").chmod(0o644)
    (draft / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    generation = {"bos_token_id": CONFIG["bos_token_id"], "pad_token_id": CONFIG["pad_token_id"],
                  "eos_token_id": [vocabulary.TURN_END, vocabulary.EOS], "do_sample": False}
    (draft / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")
    (draft / "chat_template.jinja").write_text(chat_format.template())
    shutil.copy(pathlib.Path(__file__).with_name("model_card.md"), draft / "README.md")
    for name in ("tiktoken.model", "tokenizer_config.json"):
        shutil.copy(pathlib.Path(tokenizer_folder) / name, draft / name)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def read(folder, template):
    return from_checkpoint(load_file(pathlib.Path(folder) / "model.safetensors"), template)
