"""Muon for the matrices that carry content, AdamW for the rest, and averaged weights to evaluate.

Muon on what makes queries and keys lets attention logits grow until every head stares at one token,
so those learn by AdamW, as do the embedding, the head, the router and the norms.
"""

import collections

import torch

MUON_RATE, ADAM_RATE = 0.01, 3e-3
AVERAGE = 0.998  # of the weights, a step at a time

_MUON_ENDINGS = ("attention.out", "mlp.gate", "mlp.up", "mlp.out", "shared.gate",
                 "shared.up", "shared.out")


class Muon(torch.optim.Optimizer):
    """Momentum whose singular values are brought near one. Stacks of matrices are updated matrix
    by matrix, and all parameters of one shape at once."""

    COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the iteration that maps singular values to one
    ITERATIONS = 5

    def __init__(self, parameters, rate, momentum=0.95, decay=0.1):
        super().__init__(list(parameters), {"lr": rate, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = collections.defaultdict(list)
            for parameter in group["params"]:
                shape = parameter.shape[-2:]
                # A matrix and its transpose are one case: the shorter side first.
                by_shape[tuple(sorted(shape)), shape[0] > shape[1]].append(parameter)
            for (_, tall), parameters in by_shape.items():
                self._update(group, parameters, tall)

    def _update(self, group, parameters, tall):
        momentum, rate = group["momentum"], group["lr"]
        directions = []
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["mean"] = torch.zeros_like(parameter)
            state["mean"].lerp_(parameter.grad, 1 - momentum)
            direction = parameter.grad.lerp(state["mean"], momentum)
            directions.append(direction.reshape(-1, *parameter.shape[-2:]))
        stack = torch.cat(directions)
        stack = self.orthogonal(stack.mT if tall else stack)
        rows, columns = directions[0].shape[-2:]
        # A layer's output should move alike whatever its width.
        stack = (stack.mT if tall else stack) * max(1.0, rows / columns) ** 0.5
        for parameter, update in zip(parameters, stack.split([len(d) for d in directions])):
            parameter.mul_(1 - rate * group["decay"])
            parameter.add_(update.view_as(parameter), alpha=-rate)

    @classmethod
    def orthogonal(cls, x):
        a, b, c = cls.COEFFICIENTS
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(cls.ITERATIONS):
            square = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
        return x


class Learner:
    """Both optimizers under one schedule, and the running average of the weights."""

    def __init__(self, network):
        named = dict(network.named_parameters())
        content = [p for name, p in named.items() if name.endswith(_MUON_ENDINGS)]
        norms = [p for p in named.values() if p.ndim == 1]
        taken = {id(p) for p in content + norms}
        others = [p for p in named.values() if id(p) not in taken]
        self.network = network
        self.muon = Muon(content, MUON_RATE)
        self.adam = torch.optim.AdamW(
            [{"params": others, "weight_decay": 0.01}, {"params": norms, "weight_decay": 0.0}],
            lr=ADAM_RATE, betas=(0.9, 0.95), fused=True)
        self.average = {name: value.clone() for name, value in network.state_dict().items()}
        self.steps = 0

    def zero_grad(self):
        self.muon.zero_grad()
        self.adam.zero_grad()

    @torch.no_grad()
    def step(self, scale):
        """`scale`: of the learning rates, by the schedule."""
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer, rate in ((self.muon, MUON_RATE), (self.adam, ADAM_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
            optimizer.step()
        self.steps += 1
        # Young weights are not worth remembering: the average starts short.
        share = 1 - min(AVERAGE, self.steps / (self.steps + 20))
        state = self.network.state_dict()
        torch._foreach_lerp_(list(self.average.values()), [state[n] for n in self.average], share)

    def state(self):
        return {"muon": self.muon.state_dict(), "adam": self.adam.state_dict(),
                "average": self.average, "steps": self.steps}

    def load(self, state):
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.average = state["average"]
        self.steps = state["steps"]
