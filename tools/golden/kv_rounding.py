"""Eager attention that keeps K and V as Bulkhead's cache does: rounded to BF16.

Importing this module registers it with transformers under NAME.
"""

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

NAME = "bf16_kv"


def attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **_):
    groups = query.shape[1] // key.shape[1]
    key = key.bfloat16().float().repeat_interleave(groups, dim=1)
    value = value.bfloat16().float().repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask[..., : key.shape[-2]]
    return (torch.softmax(scores, dim=-1) @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, eager_mask)
