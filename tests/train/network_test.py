"""The network that is trained and the checkpoint it becomes; skipped where torch is not installed.

torch is no part of the project's own set-up: tools/train/README.md says how to get it.
"""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "train"))

try:
    import torch
    import safetensors  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; see tools/train/README.md")
    sys.exit(77)

import checkpoint  # noqa: E402
import vocabulary  # noqa: E402
from network import CONFIG, Network, attend  # noqa: E402
from optimizers import Learner, Muon  # noqa: E402


def make(seed=1):
    """A network none of whose matrices is zero, as they are before training."""
    torch.manual_seed(seed)
    network = Network().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if not parameter.any():
                parameter.normal_(std=0.05)
    return network


def attention_norm(x):
    return torch.nn.functional.rms_norm(x, x.shape[-1:])


class TheNetwork(unittest.TestCase):
    @torch.no_grad()
    def test_documents_of_a_row_do_not_see_each_other(self):
        network = make()
        ids = torch.randint(0, vocabulary.BASE, (50,))
        together = network(ids, [20, 30])
        torch.testing.assert_close(together[:20], network(ids[:20], [20]))
        torch.testing.assert_close(together[20:], network(ids[20:], [30]))

    @torch.no_grad()
    def test_no_token_sees_what_comes_after_it(self):
        network = make()
        ids = torch.randint(0, vocabulary.BASE, (40,))
        changed = ids.clone()
        changed[25:] = (changed[25:] + 1) % vocabulary.BASE
        torch.testing.assert_close(network(ids, [40])[:25], network(changed, [40])[:25])

    @torch.no_grad()
    def test_heads_of_the_first_layer_look_back_at_birth(self):
        attention = Network().eval().layers[0].attention
        attention.out.copy_(torch.eye(CONFIG["hidden_size"]))
        network = Network()
        ids = torch.randint(0, vocabulary.BASE, (60,))
        x = attention_norm(network.embedding[ids])
        turn = network.turns[:60, None]
        before = attention(x, turn, [60])
        for head, distance in enumerate((1, 2, 3)):
            part = slice(32 * head, 32 * head + 32)
            changed = x.clone()
            changed[20, 1:] = torch.randn(CONFIG["hidden_size"] - 1)
            moved = (attention(changed, turn, [60]) - before)[:, part].norm(dim=-1)
            moved[20] = 0.0  # its own query changed, too
            self.assertEqual(moved.argmax().item(), 20 + distance)

    @torch.no_grad()
    def test_long_documents_and_short_ones_are_attended_to_alike(self):
        q, k = torch.randn(2, 1100, 4, 64)
        v = torch.randn(1100, 4, 32)
        torch.testing.assert_close(attend(q, k, v)[:900], attend(q[:900], k[:900], v[:900]),
                                   rtol=1e-4, atol=1e-4)

    def test_experts_in_one_block_are_the_experts_one_by_one_gradients_included(self):
        experts = make().layers[1].mlp
        x = torch.randn(37, CONFIG["hidden_size"], requires_grad=True)
        parameters = [x, *experts.parameters()]
        picked, weight = experts.route(x)
        self.assertEqual(picked.shape, (37, CONFIG["num_experts_per_tok"]))
        torch.testing.assert_close(weight.sum(-1),
                                   torch.full((37,), CONFIG["routed_scaling_factor"]))
        plain = []
        for row, chosen, share in zip(x, picked, weight):
            total = experts.shared(row)
            for expert, one in zip(chosen, share):
                inner = torch.nn.functional.silu(experts.gate[expert] @ row)
                total = total + one * (experts.out[expert] @ (inner * (experts.up[expert] @ row)))
            plain.append(total)
        probe = torch.randn(37, CONFIG["hidden_size"])
        expected, made = torch.stack(plain), experts(x)
        torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-4)
        wanted = torch.autograd.grad((expected * probe).sum(), parameters)
        for grad, want in zip(torch.autograd.grad((made * probe).sum(), parameters), wanted):
            torch.testing.assert_close(grad, want, rtol=1e-4, atol=1e-3)

    @torch.no_grad()
    def test_the_selection_bias_moves_towards_idle_experts(self):
        experts = make().layers[1].mlp
        experts.load.copy_(torch.arange(8.0))
        experts.balance()
        self.assertGreater(experts.bias[0].item(), 0)
        self.assertLess(experts.bias[7].item(), 0)
        self.assertEqual(experts.load.sum().item(), 0)


class TheCheckpoint(unittest.TestCase):
    def test_names_and_shapes_are_those_of_the_family(self):
        tensors = checkpoint.to_checkpoint(make().state_dict())
        layer = "model.layers.1."
        for name, shape in (
                (layer + "self_attn.q_a_proj.weight", (96, 128)),
                (layer + "self_attn.kv_a_proj_with_mqa.weight", (128, 128)),
                (layer + "self_attn.kv_b_proj.weight", (256, 96)),
                (layer + "mlp.experts.7.down_proj.weight", (128, 64)),
                (layer + "mlp.shared_experts.gate_proj.weight", (64, 128)),
                (layer + "mlp.gate.e_score_correction_bias", (8,)),
                ("model.layers.0.mlp.down_proj.weight", (128, 384)),
                ("model.embed_tokens.weight", (vocabulary.SIZE, 128)),
                ("lm_head.weight", (vocabulary.SIZE, 128))):
            self.assertEqual(tuple(tensors[name].shape), shape, name)

    def test_a_network_comes_back_from_its_checkpoint_but_for_rounding(self):
        state = make().state_dict()
        again = checkpoint.rounded(state)
        self.assertEqual(set(again), set(state))
        for name, value in state.items():
            torch.testing.assert_close(again[name], value, rtol=2**-8, atol=0)
        for name, value in checkpoint.rounded(again).items():
            self.assertTrue(torch.equal(value, again[name]), name)


class Learning(unittest.TestCase):
    def test_muon_brings_singular_values_near_one(self):
        torch.manual_seed(3)
        values = torch.linalg.svdvals(Muon.orthogonal(torch.randn(5, 32, 64)))
        self.assertGreater(values.min().item(), 0.5)
        self.assertLess(values.max().item(), 1.5)

    def test_a_string_of_tokens_is_learnt_by_heart(self):
        network = make()
        learner = Learner(network.train())
        ids = torch.randint(0, vocabulary.BASE, (64,))
        losses = []
        for _ in range(30):
            logits = network(ids, [64])[:-1]
            loss = torch.nn.functional.cross_entropy(logits, ids[1:])
            learner.zero_grad()
            loss.backward()
            learner.step(1.0)
            network.balance()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.3 * losses[0])


if __name__ == "__main__":
    unittest.main()
