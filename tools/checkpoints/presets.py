"""Configurations of random models: small enough for one machine, shaped like the large ones."""

_KIMI = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2", "dtype": "bfloat16",
    "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False,
    "moe_layer_freq": 1, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
    "topk_group": 1, "norm_topk_prob": True, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
    "routed_scaling_factor": 2.827, "num_nextn_predict_layers": 0, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 131072, "rope_theta": 50000.0,
    "rope_scaling": {"type": "yarn", "factor": 32.0, "beta_fast": 1.0, "beta_slow": 1.0,
                     "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4096}}

_GLM = {
    "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "dtype": "bfloat16",
    "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False,
    "moe_layer_freq": 1, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
    "topk_group": 1, "norm_topk_prob": True, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
    "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 0, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 202752, "rope_interleave": True, "indexer_rope_interleave": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 8e6},
    "index_topk_freq": 4, "index_skip_topk_offset": 3, "index_topk_pattern": None}


_LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16",
    "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": None}


def _of(base, vocabulary, **sizes):
    # The last three ids are the special tokens of vocabulary.py.
    ids = {"bos_token_id": vocabulary - 3, "eos_token_id": vocabulary - 1, "pad_token_id": None}
    return {**base, "vocab_size": vocabulary, **ids,
            "num_key_value_heads": sizes["num_attention_heads"], **sizes}


PRESETS = {
    # A few MB, in the second-level cache: for correctness, never for a claim about speed.
    "nano": _of(_KIMI, 1024, hidden_size=256, num_hidden_layers=4, num_attention_heads=8,
                qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32, q_lora_rank=128,
                kv_lora_rank=128, intermediate_size=512, moe_intermediate_size=128,
                n_routed_experts=8, num_experts_per_tok=2),
    # The same with an indexer in two layers of four that is soon sparse.
    "nano-G": _of(_GLM, 1024, hidden_size=256, num_hidden_layers=4, num_attention_heads=8,
                  qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32, q_lora_rank=128,
                  kv_lora_rank=128, intermediate_size=512, moe_intermediate_size=128,
                  n_routed_experts=8, num_experts_per_tok=2, index_n_heads=8, index_head_dim=64,
                  index_topk=32, indexer_types=["full", "shared", "full", "shared"]),
    # 1.31 billion parameters, 0.23 active.
    "mini-K": _of(_KIMI, 32768, hidden_size=1024, num_hidden_layers=12, num_attention_heads=64,
                  qk_nope_head_dim=32, qk_rope_head_dim=64, v_head_dim=32, q_lora_rank=512,
                  kv_lora_rank=512, intermediate_size=4096, moe_intermediate_size=512,
                  n_routed_experts=64, num_experts_per_tok=4),
    # Grouped queries over narrow layers: most of what a step reads at 1 k tokens is cache.
    "nano-L": _of(_LLAMA, 1024, hidden_size=256, num_hidden_layers=4, num_attention_heads=8,
                  num_key_value_heads=2, head_dim=32, intermediate_size=512),
    # Bound by memory where 200 GFLOP/s stand beside 32 GB/s, 6.2 operations to a byte. A token in a
    # BF16 cache is 2 * 4 * 128 * 2 = 2048 bytes a layer and 4 * 8 * 128 = 4096 operations: 2 to a
    # byte. Weights, read once for all requests, are 0.98 million a layer and 2.1 million behind the
    # layers: 28 million operations a token, where 1 k tokens of cache are 50 million and 25 MB. A
    # token takes 0.39 ms of arithmetic and 0.79 ms (FP8: 0.39) of memory. 32 BF16 requests of 1,088
    # tokens are 856 MB of cache. With 4 or more query heads a key head, or 1024 wide layers,
    # arithmetic is as dear as BF16's bytes, and fewer bytes gain nothing.
    "mini-L": _of(_LLAMA, 8192, hidden_size=256, num_hidden_layers=12, num_attention_heads=8,
                  num_key_value_heads=4, head_dim=128, intermediate_size=256),
    # 3.3 billion parameters, 0.68 active, with an indexer in every fourth layer.
    "mini-G": _of(_GLM, 32768, hidden_size=1536, num_hidden_layers=16, num_attention_heads=64,
                  qk_nope_head_dim=64, qk_rope_head_dim=64, v_head_dim=64, q_lora_rank=768,
                  kv_lora_rank=512, intermediate_size=6144, moe_intermediate_size=640,
                  n_routed_experts=64, num_experts_per_tok=6, index_n_heads=32,
                  index_head_dim=128, index_topk=2048),
}
