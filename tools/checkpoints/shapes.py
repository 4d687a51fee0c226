"""The tensors of a checkpoint, family by family, as config.json asks for them."""

import dataclasses

DENSE = ("llama", "qwen2", "qwen3")
GQA_EXPERTS = ("qwen3_moe", "glm4_moe")
LATENT = ("deepseek_v3", "kimi_k2", "kimi_k25", "deepseek_v32", "glm_moe_dsa")
FAMILIES = DENSE + GQA_EXPERTS + LATENT


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One logical tensor. `kind` decides how it is drawn and whether a format may quantise it:
    embedding, head, norm, bias, selection_bias, plain (a matrix that stays BF16), linear, expert.
    `gain` is the spread of what the matrix gives for inputs of spread 1."""
    name: str
    shape: tuple
    kind: str
    gain: float = 1.0


class Plan:
    """Collects tensors in file order; `config` is the text model's."""

    def __init__(self, family, config, prefix=""):
        self.family, self.config, self.prefix = family, config, prefix
        self.hidden = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.layers = config["num_hidden_layers"]
        # What every layer adds to the residual stream leaves it of order 1 at the end.
        self.branch_gain = (2 * self.layers) ** -0.5
        self.tensors = []

    def add(self, name, shape, kind, gain=1.0):
        self.tensors.append(Tensor(self.prefix + name, tuple(shape), kind, gain))

    def linear(self, name, rows, columns, bias=False, gain=1.0, kind="linear"):
        self.add(name + ".weight", (rows, columns), kind, gain)
        if bias:
            self.add(name + ".bias", (rows,), "bias")

    def flag(self, key, fallback=False):
        value = self.config.get(key)
        return fallback if value is None else value

    def all(self):
        self.add("model.embed_tokens.weight", (self.config["vocab_size"], self.hidden), "embedding")
        for layer in range(self.layers):
            self.layer(layer)
        self.add("model.norm.weight", (self.hidden,), "norm")
        if not self.config.get("tie_word_embeddings", False):
            self.add("lm_head.weight", (self.config["vocab_size"], self.hidden), "head", 3.0)
        return self.tensors

    def layer(self, layer):
        at = f"model.layers.{layer}."
        self.add(at + "input_layernorm.weight", (self.hidden,), "norm")
        attention = self.latent_attention if self.family in LATENT else self.grouped_attention
        attention(at + "self_attn.", layer)
        self.add(at + "post_attention_layernorm.weight", (self.hidden,), "norm")
        if self.is_sparse(layer):
            self.experts(at + "mlp.")
        else:
            self.mlp(at + "mlp.", self.config["intermediate_size"], self.branch_gain)

    def is_sparse(self, layer):
        if self.family in DENSE:
            return False
        if self.config.get("mlp_layer_types"):
            return self.config["mlp_layer_types"][layer] == "sparse"
        if self.family == "qwen3_moe":
            return (layer not in self.flag("mlp_only_layers", [])
                    and (layer + 1) % self.flag("decoder_sparse_step", 1) == 0)
        return layer >= self.flag("first_k_dense_replace", 0)

    def grouped_attention(self, at, _layer):
        keys = self.config.get("num_key_value_heads") or self.heads
        fallback = 128 if self.family.startswith("qwen3") else self.hidden // self.heads
        head = self.config.get("head_dim") or fallback
        flagged = self.flag("attention_bias")
        bias = flagged or self.family == "qwen2"
        self.linear(at + "q_proj", self.heads * head, self.hidden, bias)
        self.linear(at + "k_proj", keys * head, self.hidden, bias)
        self.linear(at + "v_proj", keys * head, self.hidden, bias)
        self.linear(at + "o_proj", self.hidden, self.heads * head,
                    flagged and self.family != "glm4_moe", self.branch_gain)
        if self.family.startswith("qwen3") or self.flag("use_qk_norm"):
            self.add(at + "q_norm.weight", (head,), "norm")
            self.add(at + "k_norm.weight", (head,), "norm")

    def latent_attention(self, at, layer):
        config = self.config
        nope, rope, value = (config[key] for key in
                             ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        latent, query = config["kv_lora_rank"], config.get("q_lora_rank")
        bias = self.flag("attention_bias")
        if query:
            self.linear(at + "q_a_proj", query, self.hidden, bias)
            self.add(at + "q_a_layernorm.weight", (query,), "norm")
            self.linear(at + "q_b_proj", self.heads * (nope + rope), query)
        else:
            self.linear(at + "q_proj", self.heads * (nope + rope), self.hidden)
        self.linear(at + "kv_a_proj_with_mqa", latent + rope, self.hidden, bias)
        self.add(at + "kv_a_layernorm.weight", (latent,), "norm")
        self.linear(at + "kv_b_proj", self.heads * (nope + value), latent)
        self.linear(at + "o_proj", self.hidden, self.heads * value, bias, self.branch_gain)
        if self.has_indexer(layer):
            self.indexer(at + "indexer.", query)

    def has_indexer(self, layer):
        if self.family == "deepseek_v32":
            return True
        if self.family != "glm_moe_dsa":
            return False
        types = self.config.get("indexer_types") or self.config.get("index_topk_pattern")
        if types:
            return types[layer] in ("full", "F")
        offset = self.flag("index_skip_topk_offset", 2)
        return max(layer - offset + 1, 0) % self.flag("index_topk_freq", 1) == 0

    def indexer(self, at, query):
        heads, size = self.config["index_n_heads"], self.config["index_head_dim"]
        self.linear(at + "wq_b", heads * size, query)
        self.linear(at + "wk", size, self.hidden)
        self.add(at + "k_norm.weight", (size,), "norm")
        self.add(at + "k_norm.bias", (size,), "bias")
        self.linear(at + "weights_proj", heads, self.hidden, kind="plain")

    def mlp(self, at, width, gain, kind="linear"):
        bias = self.family == "llama" and self.flag("mlp_bias")
        self.linear(at + "gate_proj", width, self.hidden, bias, kind=kind)
        self.linear(at + "up_proj", width, self.hidden, bias, kind=kind)
        self.linear(at + "down_proj", self.hidden, width, bias, gain, kind=kind)

    def experts(self, at):
        config = self.config
        count = next(config[key] for key in
                     ("n_routed_experts", "num_local_experts", "num_experts") if config.get(key))
        width = config["moe_intermediate_size"]
        self.linear(at + "gate", count, self.hidden, kind="plain")
        if self.family != "qwen3_moe":
            self.add(at + "gate.e_score_correction_bias", (count,), "selection_bias")
        # The routed sum is scaled; its parts are made smaller by as much.
        gain = self.branch_gain / self.flag("routed_scaling_factor", 1.0)
        for expert in range(count):
            self.mlp(f"{at}experts.{expert}.", width, gain, kind="expert")
        if self.family != "qwen3_moe":
            shared = self.flag("n_shared_experts", 1)
            self.mlp(at + "shared_experts.", shared * width, self.branch_gain)


def tensors_of(config):
    """The logical tensors that `config`, a whole config.json, asks for. Layers for next-token
    prediction and vision towers are left out."""
    family = config["model_type"]
    if family not in FAMILIES:
        raise SystemExit(f"model_type {family!r} is not one of {', '.join(FAMILIES)}")
    text = config.get("text_config", config)
    return Plan(family, text, "language_model." if family == "kimi_k25" else "").all()
