"""Exceptions to the rules of `tiny_sizes` for single model types, and values that types leave open.

Keyed by the model type of each config, or by its class where that has none, so that an entry also holds where the config is nested in another type's.
"""

from collections.abc import Callable, Mapping
from typing import Any

from attncli.models.random.tiny_sizes import TinySizeUnits

Overrides = Mapping[str, Any | Callable[[TinySizeUnits], Any]]
"""Values of attributes; a function computes one from the units."""


def rotary_sections(share: float = 1.0) -> Overrides:
    """Sections of rotary angles for time, rows and columns, which the default lacks or gives for heads of width 128."""

    def build_rope(units: TinySizeUnits) -> dict[str, Any]:
        half = int(units.head_width * share) // 2
        third = max(1, half // 3)
        angles = {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [half - 2 * third, third, third],
        }
        return angles if share == 1.0 else {**angles, "partial_rotary_factor": share}

    return {"rope_parameters": build_rope}


def alternate_layer_kinds(*kinds: str) -> Callable[[TinySizeUnits], list[str]]:
    """The kinds of all layers, alternating."""
    return lambda units: [kinds[layer % len(kinds)] for layer in range(units.layers)]


HEAD_WIDTH: Overrides = {"head_dim": lambda units: units.head_width}
"""The default is None, which the model's code cannot use."""
DECODED_CHANNELS: Overrides = {"decoder_in_channels": lambda units: [units.width] * 3}
"""The decoder reads three maps of the encoder's width."""
FORECASTS: Overrides = {
    "prediction_length": 4,
    "context_length": 12,
    "lags_sequence": [1, 2, 3],
    "num_time_features": 1,
}
"""The length of the forecast is left open by default."""

CONVOLUTIONAL = frozenset(
    {
        "align_vision_model",
        "bit",
        "cvt",
        "efficientnet",
        "hgnet_v2",
        "pp_lcnet",
        "pp_lcnet_v3",
        "pp_lcnet_v4",
        "pp_ocrv5_mobile_det",
        "pp_ocrv5_mobile_rec",
        "pp_ocrv5_server_det",
        "pp_ocrv5_server_rec",
        "pp_ocrv6_medium_det",
        "pp_ocrv6_small_det",
        "superpoint",
        "textnet",
        "uvdoc",
        "uvdoc_backbone",
    }
)
"""Small types whose widths are tied to each other by tables: their sizes stay."""
EFFICIENT: Overrides = {"image_size": 64, "depth_coefficient": 1.0}
"""With images of 600 pixels a side and three times the layers, these take a minute."""

OVERRIDES: Mapping[str, Overrides] = {
    # hybrids whose kinds of layers follow from a period, not from a list
    "bamba": {"attn_layer_indices": [1]},
    "gpt_neo": {
        "attention_types": lambda units: [
            [[kind], 1] for kind in alternate_layer_kinds("global", "local")(units)
        ]
    },
    "granitemoehybrid": {
        "layer_types": alternate_layer_kinds("linear_attention", "full_attention")
    },
    "jamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    "lfm2": {"layer_types": alternate_layer_kinds("conv", "full_attention")},
    "lfm2_moe": {"layer_types": alternate_layer_kinds("conv", "full_attention")},
    "recurrent_gemma": {
        "num_hidden_layers": 3,
        "attention_window_size": 4,
        "lru_width": lambda units: units.width,
    },
    "zamba": {
        "num_hidden_layers": lambda units: max(4, units.layers),
        "layers_block_type": lambda units: [
            ("linear_attention", "hybrid")[layer % 2] for layer in range(max(4, units.layers))
        ],
        "attention_hidden_size": lambda units: 2 * units.width,
        "attention_head_dim": lambda units: 2 * units.head_width,
    },
    # rotary angles in sections
    "ernie4_5_vl_moe_text": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [3, 3, 2],
        }
    },
    "glm4v_moe_text": rotary_sections(0.5),
    "glm4v_text": rotary_sections(),
    "glm_image_text": rotary_sections(),
    "glm_ocr_text": rotary_sections(),
    "hunyuan_vl_text": {**HEAD_WIDTH, **rotary_sections()},
    "paddleocr_vl_text": rotary_sections(),
    "qwen2_5_omni_talker": rotary_sections(),
    "qwen2_5_omni_text": rotary_sections(),
    "qwen2_5_vl_text": rotary_sections(),
    "qwen2_vl_text": rotary_sections(),
    # sizes that the default leaves open
    "autoformer": FORECASTS,
    "cohere_compass_text": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 10_000.0}
            for kind in ("full_attention", "sliding_attention")
        }
    },
    "chameleon": {"vocabulary_map": {"<image>": 120}},
    "deepseek_ocr2_text": {
        "mlp_layer_types": alternate_layer_kinds("dense", "sparse"),
        "num_experts_per_tok": 2,
    },
    "deepseek_v2": {"num_experts_per_tok": 2},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "emu3": {"vocabulary_map": {"<image>": 120, "<|extra_200|>": 121}},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "hunyuan_v1_dense": HEAD_WIDTH,
    "hunyuan_v1_moe": HEAD_WIDTH,
    "informer": FORECASTS,
    "ministral": HEAD_WIDTH,
    "molmo2_adapter": {"vision_feature_layer": [1, 0]},
    "moonshine_streaming": {"num_key_value_heads": lambda units: units.heads},
    "muse_spark_audio": {"num_hidden_layers": 4},
    "nemotron": {"num_key_value_heads": lambda units: units.key_heads},
    "perceiver": {
        "num_self_attends_per_block": 2,
        "d_latents": lambda units: units.width,
        "num_latents": 8,
    },
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": lambda units: units.head_width,
        "indexer_budget": 4,
        "indexer_compress_ratio": 2,
    },
    "seggpt": {
        "num_hidden_layers": 5,
        "merge_index": 0,
        "intermediate_hidden_state_indices": [1, 2, 3, 4],
    },
    "step3p5": {"sliding_window": 4},
    "time_series_transformer": FORECASTS,
    "lw_detr": {"projector_scale_factors": [1.0]},
    # ids that the default leaves open
    **{kind: {"image_token_id": 120, "num_query_tokens": 8} for kind in ("blip-2", "instructblip")},
    "instructblipvideo": {"video_token_id": 120, "num_query_tokens": 8},
    "kosmos-2": {"latent_query_num": 8},
    # sizes that must agree
    "clvp_encoder": {"num_attention_heads": 2},
    "clvp_decoder": {"num_attention_heads": 2},
    "depth_pro": {"patch_size": 64, "intermediate_hook_ids": [1, 0]},
    "deepseek_ocr2_sam_vision_model": {"downsample_channels": lambda units: [units.width] * 2},
    "unlimited_ocr_sam_vision_model": {"downsample_channels": lambda units: [units.width] * 2},
    "FunAsrNanoAdaptorConfig": {"intermediate_size": lambda units: units.width // 4},
    "efficientloftr": {"hidden_size": 256, "num_attention_heads": 8},
    "granite4_vision": {
        "deepstack_layer_map": [[-1, 0]],
        "spatial_target_layers": [0, 0, 1, 1],
        "downsample_rate": "1/2",
    },
    "inkling_vision": {"patch_size": 4},
    "neucodec": {"quantization_dim": lambda units: 2 * units.width},
    "xcodec2": {"quantization_dim": lambda units: 2 * units.width},
    "omdet-turbo": {
        "apply_layernorm_after_vision_backbone": False,  # timm's features have their channels last
        "encoder_in_channels": [48, 96, 192],
        "d_model": 32,  # the class makes a projection only where the text has another width, but always uses it
        "encoder_hidden_dim": 32,
        "decoder_hidden_dim": 32,
        "vision_features_channels": [32] * 3,
    },
    "phi4_multimodal_audio": {
        name: lambda units: units.width
        for name in ("ext_pw_out_channel", "depthwise_separable_out_channel", "nemo_conv_channels")
    },
    "janus_vqgan": {"num_patches": 4},
    "superglue": {"hidden_size": 256, "keypoint_encoder_sizes": [32, 64, 128, 256]},
    "vibevoice_asr": {"acoustic_tokenizer_chunk_size": 3200},
    "vitmatte": {"fusion_hidden_sizes": [256, 128, 64, 32]},
    "xcodec": {"codebook_dim": lambda units: 1024 + units.width},
    "align": {"projection_dim": 640},
    "align_vision_model": EFFICIENT,
    "vits": {
        "upsample_initial_channel": 32,
        "flow_size": 32,
    },  # the vocoder would take most of a pass
    "tvp": {
        "max_img_size": 64,
        "visual_prompt_size": 8,
        "num_frames": 2,
    },  # otherwise a forward pass takes three seconds
    "efficientnet": EFFICIENT,
    "d_fine": DECODED_CHANNELS,
    "deimv2": DECODED_CHANNELS,
    "pp_doclayout_v2": DECODED_CHANNELS,
    "pp_doclayout_v3": DECODED_CHANNELS,
    "pp_doclayout_v4": DECODED_CHANNELS,
    "rt_detr": DECODED_CHANNELS,
    "rt_detr_v2": DECODED_CHANNELS,
    "falcon_h1": {"mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16},
    "sam_hq_vision_model": {"num_pos_feats": lambda units: units.width // 2},
    "sam_vision_model": {"num_pos_feats": lambda units: units.width // 2},
    "zoedepth": {"bottleneck_features": lambda units: units.width},
    "clap_audio_model": {"patch_embeds_hidden_size": 32, "hidden_size": 256},
    "layoutlmv3": {
        "coordinate_size": lambda units: 3 * units.width // 16,
        "shape_size": lambda units: units.width // 8,
    },
    "lilt": {"hidden_size": lambda units: 12 * units.heads},
    "llama4_vision_model": {"intermediate_size": lambda units: 4 * units.width},
    "longcat_flash": {"head_dim": lambda units: units.head_width // 2},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "mistral4": HEAD_WIDTH,
    "moonshine": {
        "encoder_num_key_value_heads": lambda units: units.heads,
        "decoder_num_key_value_heads": lambda units: units.heads,
    },
    "reformer": {"axial_pos_embds_dim": lambda units: [units.width // 4, 3 * units.width // 4]},
    "sam2_hiera_det_model": {
        "hidden_size": 32,
        "embed_dim_per_stage": [32, 64, 128, 256],
        "global_attention_blocks": [4],
    },
    "sam2_vision_model": {"backbone_channel_list": [256, 128, 64, 32]},
    # attributes that the model reads and the config does not have
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 2, "clip_qkv": 8}},
    "pix2struct_text_model": {"initializer_range": 0.02},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 64},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_text": {"dropout_rate": 0.0},
    # words and ids that are not sizes
    "shieldgemma2": {"yes_token_index": 5, "no_token_index": 6},
    "xmod": {"default_language": "en_XX"},
}
