"""The architecture of DeepSeek-V3 and Kimi K2 at toy size, laid out for training on a CPU.

What is computed is the checkpoint's model exactly (evaluate.py compares with transformers); how it
is laid out is not the checkpoint's:

- documents lie one after another in one row of tokens, without padding; attention takes them one
  by one, everything else takes the whole row at once;
- the tokens of all experts are gathered into one block, as many rows for each expert as the busiest
  one needs, and all experts are one batched product. Sums over tokens are gathers too, forwards and
  backwards (`Gather`), since a scattered addition is slow on a CPU;
- projections of one input are one matrix. `checkpoint.py` takes them apart.
"""

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

import vocabulary

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "kimi_k2",
    "vocab_size": vocabulary.SIZE,
    "hidden_size": 128,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    # Wider than Kimi's ratio: 64 numbers cannot hold two of 512 tokens apart, which is what
    # looking back needs of a cached position (what stood here, and what stood before it).
    "q_lora_rank": 96,
    "kv_lora_rank": 96,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "intermediate_size": 384,
    "moe_intermediate_size": 64,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.0,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "num_nextn_predict_layers": 0,
    "initializer_range": 0.02,
    "bos_token_id": vocabulary.BOS,
    "eos_token_id": vocabulary.TURN_END,
    "pad_token_id": vocabulary.PAD,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
_LATENT_EPS = 1e-6  # of the norms inside attention, whatever rms_norm_eps says
BALANCE_STEP = 1e-3  # of the selection bias, after each training step


_LONG = 1024  # tokens, of documents that fused attention is for
_TURNING, _PULL = 3, 8.0  # how many of the fastest pairs find a distance, and how sharply


def _frequencies(size):
    return CONFIG["rope_theta"] ** (-torch.arange(0, size, 2) / size)


def matrix(rows, columns, *, experts=0):
    shape = (experts, rows, columns) if experts else (rows, columns)
    return nn.Parameter(torch.randn(shape) / math.sqrt(columns))


def rotate(x, turn):
    """Turns the pairs (x0, x1), (x2, x3), ... of x [T, heads, size] by turn [T, 1, size / 2]."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2)


class Gather(torch.autograd.Function):
    """Rows of x by index. `places` [rows of x, n] says where each row went, so that its gradient
    is a gather as well: -1 for nowhere. Rows of the result not named there must get no gradient."""

    @staticmethod
    def forward(context, x, index, places):
        context.places = places
        return x.index_select(0, index)

    @staticmethod
    def backward(context, grad):
        places = context.places
        back = grad.index_select(0, places.clamp(min=0).flatten()).unflatten(0, places.shape)
        if places.shape[1] > 1:
            return back.sum(1), None, None
        return back[:, 0] * (places >= 0), None, None


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    """Multi-head latent attention, expanded: keys and values of each head come from the latent."""

    def __init__(self, c):
        super().__init__()
        heads, self.nope = c["num_attention_heads"], c["qk_nope_head_dim"]
        self.heads, self.rope, self.value = heads, c["qk_rope_head_dim"], c["v_head_dim"]
        self.sizes = (c["q_lora_rank"], c["kv_lora_rank"], self.rope)
        self.down = matrix(sum(self.sizes), c["hidden_size"])  # q_a_proj, then kv_a_proj_with_mqa
        self.q_norm = Norm(c["q_lora_rank"], _LATENT_EPS)
        self.kv_norm = Norm(c["kv_lora_rank"], _LATENT_EPS)
        self.q_up = matrix(heads * (self.nope + self.rope), c["q_lora_rank"])
        self.kv_up = matrix(heads * (self.nope + self.value), c["kv_lora_rank"])
        self.out = nn.Parameter(torch.zeros(c["hidden_size"], heads * self.value))

    def forward(self, x, turn, lengths):
        tokens = x.shape[0]
        q_latent, latent, k_rope = F.linear(x, self.down).split(self.sizes, -1)
        q = F.linear(self.q_norm(q_latent), self.q_up).view(tokens, self.heads, -1)
        kv = F.linear(self.kv_norm(latent), self.kv_up).view(tokens, self.heads, -1)
        q_nope, q_rope = q.split((self.nope, self.rope), -1)
        k_nope, v = kv.split((self.nope, self.value), -1)
        k_rope = rotate(k_rope[:, None], turn).expand(-1, self.heads, -1)
        q = torch.cat((q_nope, rotate(q_rope, turn).to(q.dtype)), -1)
        k = torch.cat((k_nope, k_rope.to(k_nope.dtype)), -1)
        seen = [attend(*parts)
                for parts in zip(q.split(lengths), k.split(lengths), v.split(lengths))]
        return F.linear(torch.cat(seen).reshape(tokens, -1), self.out)

    @torch.no_grad()
    def look_back(self, distances):
        """Has head h attend to the token distances[h] before, by a constant first component of x.

        Looking for what followed the same thing before needs two layers to work together, and
        neither is rewarded until the other is there. With this one given, the other is soon found.
        """
        for part in (self.down, self.q_up):
            part[0] = 0.0
            part[:, 0] = 0.0
        self.down[0, 0] = 1.0  # the constant, through the latent of the queries
        key = self.down[sum(self.sizes[:2]):]
        key[:2 * _TURNING] = 0.0
        key[0:2 * _TURNING:2, 0] = _PULL  # as pairs: (pull, 0), turned by the token's position
        angle = _frequencies(self.rope)[:_TURNING]
        for head, distance in enumerate(distances):
            start = head * (self.nope + self.rope)
            query = self.q_up[start + self.nope:start + self.nope + 2 * _TURNING]
            query.zero_()
            query[0::2, 0] = _PULL * torch.cos(-distance * angle)
            query[1::2, 0] = _PULL * torch.sin(-distance * angle)


def attend(q, k, v):
    """One document, [T, heads, size] each: every token sees itself and those before."""
    q, k, v = (part.transpose(0, 1) for part in (q, k, v))
    length, size = q.shape[1:]
    if length > _LONG:
        # Fused attention wants values as wide as keys; below, it is slower than products.
        wide = F.pad(v, (0, size - v.shape[-1]))
        y = F.scaled_dot_product_attention(q[None], k[None], wide[None], is_causal=True)[0]
        return y[..., :v.shape[-1]].transpose(0, 1)
    hidden = _future(length).to(q.dtype)
    weights = torch.baddbmm(hidden, q, k.mT, alpha=1 / math.sqrt(size)).softmax(-1)
    return (weights @ v).transpose(0, 1)


@functools.lru_cache(maxsize=1)
def _whole_future():
    return torch.full((_LONG, _LONG), -torch.inf).triu(1)


def _future(length):
    """Minus infinity at what a token may not see."""
    return _whole_future()[:length, :length]


class FeedForward(nn.Module):
    def __init__(self, hidden, size):
        super().__init__()
        self.gate, self.up = matrix(size, hidden), matrix(size, hidden)
        self.out = nn.Parameter(torch.zeros(hidden, size))

    def forward(self, x):
        return F.linear(F.silu(F.linear(x, self.gate)) * F.linear(x, self.up), self.out)


class Experts(nn.Module):
    """Sigmoid router with a selection bias that evens out the load, and a shared expert.

    The bias only selects. After each training step it moves a little towards experts that had few
    tokens (`balance`), so that no auxiliary loss is needed.
    """

    def __init__(self, c):
        super().__init__()
        self.routed, self.chosen = c["n_routed_experts"], c["num_experts_per_tok"]
        self.scale, hidden = c["routed_scaling_factor"], c["hidden_size"]
        size = c["moe_intermediate_size"]
        self.router = matrix(self.routed, hidden)
        self.register_buffer("bias", torch.zeros(self.routed))
        self.register_buffer("load", torch.zeros(self.routed), persistent=False)
        self.gate = matrix(size, hidden, experts=self.routed)
        self.up = matrix(size, hidden, experts=self.routed)
        self.out = nn.Parameter(torch.zeros(self.routed, hidden, size))
        self.shared = FeedForward(hidden, size * c["n_shared_experts"])

    def route(self, x):
        """The experts chosen for each token, and their weights: [T, chosen] both."""
        with torch.autocast("cpu", enabled=False):
            score = torch.sigmoid(x.float() @ self.router.t())
        picked = torch.topk(score.detach() + self.bias, self.chosen, -1, sorted=False).indices
        weight = score.gather(-1, picked)
        return picked, weight / (weight.sum(-1, keepdim=True) + 1e-20) * self.scale

    def forward(self, x):
        picked, weight = self.route(x)
        flat = picked.flatten()
        counts = torch.bincount(flat, minlength=self.routed)
        if self.training:
            self.load += counts
        rows = int(counts.max())
        order = flat.argsort(stable=True)
        rank = torch.arange(len(flat)) - (counts.cumsum(0) - counts)[flat[order]]
        # Where each choice of each token lies in the block, and which choice lies at each place.
        places = torch.empty_like(flat)
        places[order] = flat[order] * rows + rank
        sources = torch.full((self.routed * rows,), -1)
        sources[places] = torch.arange(len(flat))
        block = Gather.apply(x, sources.clamp(min=0) // self.chosen,
                             places.view(-1, self.chosen))
        block = block.view(self.routed, rows, -1)
        inner = F.silu(block @ self.gate.mT) * (block @ self.up.mT)
        made = (inner @ self.out.mT).flatten(0, 1)
        made = Gather.apply(made, places, sources[:, None]).view(len(x), self.chosen, -1)
        return (made * weight[..., None].to(made.dtype)).sum(1) + self.shared(x)

    @torch.no_grad()
    def balance(self):
        self.bias += BALANCE_STEP * torch.sign(self.load.mean() - self.load)
        self.load.zero_()


class Layer(nn.Module):
    def __init__(self, c, index):
        super().__init__()
        self.attention_norm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.attention = Attention(c)
        self.mlp_norm = Norm(c["hidden_size"], c["rms_norm_eps"])
        is_dense = index < c["first_k_dense_replace"]
        self.mlp = FeedForward(c["hidden_size"], c["intermediate_size"]) if is_dense else Experts(c)

    def forward(self, x, turn, lengths):
        x = x + self.attention(self.attention_norm(x), turn, lengths)
        return x + self.mlp(self.mlp_norm(x))


class Network(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = c = config or CONFIG
        self.embedding = matrix(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"], c["rms_norm_eps"])
        # Head and embedding are born equal, so that passing a token on is a short way to learn; the
        # embedding is as large as what a layer adds, or the first layers drown the token.
        self.head = nn.Parameter(self.embedding.detach().clone())
        with torch.no_grad():
            self.embedding *= math.sqrt(c["hidden_size"])
            self.embedding[:, 0] = 1.0
        self.layers[0].attention.look_back((1, 2, 3))
        angle = (torch.arange(c["max_position_embeddings"])[:, None]
                 * _frequencies(c["qk_rope_head_dim"]))
        self.register_buffer("turns", torch.polar(torch.ones_like(angle), angle),
                             persistent=False)

    def forward(self, ids, lengths):
        """Documents one after another, [T], and their lengths -> logits [T, vocabulary]."""
        positions = torch.cat([torch.arange(length) for length in lengths])
        turn = self.turns[positions][:, None]
        x = self.embedding[ids]
        for layer in self.layers:
            x = layer(x, turn, lengths)
        # Logits of some tens are too large for BF16 to tell apart.
        with torch.autocast("cpu", enabled=False):
            return F.linear(self.norm(x), self.head)

    def balance(self):
        for layer in self.layers:
            if isinstance(layer.mlp, Experts):
                layer.mlp.balance()
