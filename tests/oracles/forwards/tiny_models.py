"""Tiny seeded models in float64 with one text each, built so that nothing hides: no zero bias, no gain of one, attention
far from uniform, windows and buckets shorter than the text, every count different from every other."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import transformers as hf
from torch import nn

Tiny = tuple[Any, dict[str, torch.Tensor]]

VOCABULARY = 41


def ready(model: Any, seed: int, sharpness: float = 1.0) -> Any:
    """The model with seeded weights everywhere, in float64, for inference.

    Embeddings are standard normal; other matrices keep the size of what they multiply, those of queries and keys enlarge
    it by `sharpness`; vectors (biases and gains) move away from 0 and 1.
    """
    generator = torch.Generator().manual_seed(seed)
    looked_up = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    for name, parameter in model.double().eval().requires_grad_(False).named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.ndim == 1:
            parameter += 0.3 * noise
        elif id(parameter) in looked_up or len(parameter) == 1:
            parameter.copy_(noise)
        else:
            sharp = any(part in name for part in QUERIES_AND_KEYS)
            size = parameter.numel() ** 0.25  # the root of √(in · out), however it is stored
            parameter.copy_((sharpness if sharp else 1.0) * noise / size)
    return model


QUERIES_AND_KEYS = ("query", "key", "q_", "k_", ".q.", ".k.", "attn.q", "attn.k", "c_attn")


def token_ids(tokens: int, seed: int) -> torch.Tensor:
    """One text of random tokens, none of them special."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, VOCABULARY, (1, tokens), generator=generator)


def segments(tokens: int) -> torch.Tensor:
    """Two segments, the first one shorter."""
    return (torch.arange(tokens) >= tokens // 3).long()[None]


def bert(layers: int = 3, width: int = 24, heads: int = 3, tokens: int = 8, **options: Any) -> Tiny:
    return bert_like(hf.BertConfig, hf.BertModel, layers, width, heads, tokens, **options)


def bert_like(
    config_class: Any,
    model_class: Any,
    layers: int = 3,
    width: int = 24,
    heads: int = 3,
    tokens: int = 7,
    seed: int = 1,
    **options: Any,
) -> Tiny:
    config = config_class(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * width + 5,
        max_position_embeddings=tokens + 4,
        type_vocab_size=2,
        **options,
    )
    inputs = {"input_ids": token_ids(tokens, seed), "token_type_ids": segments(tokens)}
    return ready(model_class(config), seed, sharpness=1.5), inputs


def distilbert() -> Tiny:
    config = hf.DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=20,
        n_layers=3,
        n_heads=4,
        hidden_dim=33,
        max_position_embeddings=9,
    )
    return ready(hf.DistilBertModel(config), 2, sharpness=1.5), {"input_ids": token_ids(7, 2)}


def xlnet(two_streams: bool = False) -> Tiny:
    config = hf.XLNetConfig(
        vocab_size=VOCABULARY, d_model=24, n_layer=3, n_head=3, d_inner=37, ff_activation="gelu"
    )
    tokens, targets = 9, [2, 5, 6]
    inputs = {"input_ids": token_ids(tokens, 3), "token_type_ids": segments(tokens)}
    if two_streams:
        mask = torch.zeros(1, tokens, tokens, dtype=torch.float64)
        mask[:, :, targets] = 1.0
        mask[:, 6, 2] = 0.0
        inputs["perm_mask"] = mask
        inputs["target_mapping"] = torch.eye(tokens, dtype=torch.float64)[None, targets]
    return ready(hf.XLNetModel(config), 3, sharpness=1.3), inputs


def gpt2(
    layers: int = 3,
    width: int = 24,
    heads: int = 3,
    tokens: int = 9,
    sharpness: float = 1.5,
    **options: Any,
) -> Tiny:
    config = hf.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_inner=2 * width + 3,
        n_positions=tokens + 3,
        bos_token_id=1,
        eos_token_id=2,
        **options,
    )
    return ready(hf.GPT2Model(config), 4, sharpness), {"input_ids": token_ids(tokens, 4)}


def gpt_neo() -> Tiny:
    config = hf.GPTNeoConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_layers=4,
        num_heads=3,
        attention_types=[[["global", "local"], 2]],
        window_size=3,
        intermediate_size=41,
        max_position_embeddings=13,
        bos_token_id=1,
        eos_token_id=2,
    )
    return ready(hf.GPTNeoModel(config), 5, sharpness=0.8), {"input_ids": token_ids(11, 5)}


def gpt_neox(parallel: bool = True) -> Tiny:
    config = hf.GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=43,
        max_position_embeddings=17,
        use_parallel_residual=parallel,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
    )
    return ready(hf.GPTNeoXModel(config), 6, sharpness=1.5), {"input_ids": token_ids(9, 6)}


def llama_like(config_class: Any, model_class: Any, seed: int, **options: Any) -> Tiny:
    config = config_class(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=37,
        max_position_embeddings=32,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        **options,
    )
    return ready(model_class(config), seed, sharpness=1.5), {"input_ids": token_ids(10, seed)}


def gemma3() -> Tiny:
    config = hf.Gemma3TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=10,
        intermediate_size=37,
        max_position_embeddings=32,
        query_pre_attn_scalar=7,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
        },
    )
    return ready(hf.Gemma3TextModel(config), 9, sharpness=1.5), {"input_ids": token_ids(11, 9)}


def gemma4() -> Tiny:
    config = hf.Gemma4TextConfig(
        vocab_size=VOCABULARY,
        vocab_size_per_layer_input=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_global_key_value_heads=1,
        head_dim=10,
        global_head_dim=14,
        intermediate_size=37,
        hidden_size_per_layer_input=11,
        attention_k_eq_v=True,
        max_position_embeddings=32,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000.0},
        },
    )
    model = ready(hf.Gemma4TextModel(config), 15, sharpness=1.5)
    for number, layer in enumerate(model.layers):
        layer.layer_scalar += 0.2 * number - 0.3
    return model, {"input_ids": token_ids(11, 15)}


def qwen3_next() -> Tiny:
    config = hf.Qwen3NextConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=3,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        mlp_only_layers=[2],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        linear_num_key_heads=2,
        linear_num_value_heads=6,
        linear_key_head_dim=5,
        linear_value_head_dim=7,
        linear_conv_kernel_dim=3,
        intermediate_size=37,
        moe_intermediate_size=9,
        shared_expert_intermediate_size=13,
        num_experts=5,
        num_experts_per_tok=2,
        experts_implementation="eager",
        max_position_embeddings=32,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)  # its decays are vectors that it draws itself
        drawn = hf.Qwen3NextModel(config)
    model = ready(drawn, 19, sharpness=1.2)
    for name, parameter in model.named_parameters():
        if (
            "mlp" in name
        ):  # products of products: without norms the states would soon be too small for any number
            parameter *= 1.4
    return model, {"input_ids": token_ids(10, 16)}


def t5(**options: Any) -> Tiny:
    config = hf.T5Config(
        vocab_size=VOCABULARY,
        d_model=24,
        d_kv=6,
        d_ff=37,
        num_layers=3,
        num_decoder_layers=2,
        num_heads=3,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=7,
        **options,
    )
    inputs = {"input_ids": token_ids(11, 10), "decoder_input_ids": token_ids(9, 11)}
    return ready(hf.T5Model(config), 10, sharpness=0.8), inputs


def vit(layers: int = 3, width: int = 24, heads: int = 3, patches: int = 3) -> Tiny:
    """`patches` in each direction."""
    config = hf.ViTConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * width + 5,
        image_size=4 * patches,
        patch_size=4,
        num_channels=2,
    )
    generator = torch.Generator().manual_seed(12)
    size = (1, 2, 4 * patches, 4 * patches)
    pixels = torch.randn(size, generator=generator, dtype=torch.float64)
    return ready(hf.ViTModel(config), 12, sharpness=1.5), {"pixel_values": pixels}


def siglip() -> Tiny:
    sizes = {"num_hidden_layers": 3, "hidden_size": 24, "intermediate_size": 53}
    vision = hf.SiglipVisionConfig(
        **sizes, num_attention_heads=3, image_size=12, patch_size=4, num_channels=2
    )
    text = hf.SiglipTextConfig(
        **sizes | {"num_hidden_layers": 2},
        num_attention_heads=4,
        vocab_size=VOCABULARY,
        max_position_embeddings=10,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    config = hf.SiglipConfig(vision_config=vision.to_dict(), text_config=text.to_dict())
    generator = torch.Generator().manual_seed(15)
    pixels = torch.randn((1, 2, 12, 12), generator=generator, dtype=torch.float64)
    inputs = {"input_ids": token_ids(7, 15), "pixel_values": pixels}
    return ready(hf.SiglipModel(config), 15, sharpness=1.5), inputs


def whisper() -> Tiny:
    config = hf.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=24,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=3,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=29,
        num_mel_bins=5,
        max_source_positions=10,
        max_target_positions=13,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
    )
    generator = torch.Generator().manual_seed(13)
    features = torch.randn((1, 5, 20), generator=generator, dtype=torch.float64)
    inputs = {"input_features": features, "decoder_input_ids": token_ids(8, 13)}
    return ready(hf.WhisperModel(config), 13, sharpness=1.5), inputs


TINY: Mapping[str, Callable[[], Tiny]] = {
    "bert": bert,
    "bert-chunked": partial(bert, chunk_size_feed_forward=2),
    "roberta": partial(bert_like, hf.RobertaConfig, hf.RobertaModel),
    "distilbert": distilbert,
    "electra": partial(bert_like, hf.ElectraConfig, hf.ElectraModel, embedding_size=13),
    "albert": partial(bert_like, hf.AlbertConfig, hf.AlbertModel, embedding_size=13),
    "albert-grouped": partial(
        bert_like,
        hf.AlbertConfig,
        hf.AlbertModel,
        layers=4,
        embedding_size=13,
        num_hidden_groups=2,
        inner_group_num=2,
    ),
    "xlnet": xlnet,
    "xlnet-two-streams": partial(xlnet, two_streams=True),
    "gpt2": gpt2,
    "gpt2-scaled": partial(gpt2, scale_attn_by_inverse_layer_idx=True),
    "gpt_neo": gpt_neo,
    "gpt_neox": gpt_neox,
    "gpt_neox-sequential": partial(gpt_neox, parallel=False),
    "llama": partial(
        llama_like, hf.LlamaConfig, hf.LlamaModel, 7, attention_bias=True, mlp_bias=True
    ),
    "mistral": partial(llama_like, hf.MistralConfig, hf.MistralModel, 8, sliding_window=4),
    "qwen2": partial(
        llama_like,
        hf.Qwen2Config,
        hf.Qwen2Model,
        14,
        use_sliding_window=True,
        sliding_window=3,
        max_window_layers=1,
    ),
    "gemma3": gemma3,
    "gemma4": gemma4,
    "qwen3_next": qwen3_next,
    "t5": t5,
    "t5-gated": partial(t5, feed_forward_proj="gated-gelu"),
    "vit": vit,
    "siglip": siglip,
    "whisper": whisper,
}
"""A name is an architecture, and after a hyphen what is special."""

FOR_ARBITRARY_PRECISION: Mapping[str, Callable[[], Tiny]] = {
    "bert": partial(bert, layers=7, width=8, heads=2, tokens=6),
    "gpt2": partial(gpt2, layers=60, width=8, heads=2, tokens=6, sharpness=0.3),
    "vit": partial(vit, layers=7, width=8, heads=2, patches=2),
}
"""Small enough for hundreds of digits in seconds, deep enough to leave float64 behind: causal attention takes long."""
