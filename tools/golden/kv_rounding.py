"""A cache for transformers that keeps what Bulkhead's keeps: everything rounded to BF16."""

from transformers import DynamicCache


def _rounded(tensor):
    return tensor.bfloat16().float()


class RoundedCache(DynamicCache):
    """K and V, or the latent and the rotated key of latent attention, and the indexer's keys."""

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        return super().update(_rounded(key_states), _rounded(value_states), layer_idx, *args,
                              **kwargs)

    def update_indexer(self, key_states, layer_idx, *args, **kwargs):
        return super().update_indexer(_rounded(key_states), layer_idx, *args, **kwargs)
