"""Exceptions to the rules of `tiny_sizes` for single model types: those of the table next to this file, and computed ones."""

import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from attncli.models.random.size_overrides import ConfigSizes
from attncli.models.random.tiny_sizes import TinySizeUnits

Overrides = Mapping[str, Any | Callable[[TinySizeUnits], Any]]
"""Values of attributes; a function, or a text such as `= 2 * width`, computes one from the units."""


def make_rotary_sections_override(share: float = 1.0) -> Overrides:
    """Sections of rotary angles for time, rows and columns, which the default lacks or gives for heads of width 128."""

    def build_rope_parameters(units: TinySizeUnits) -> ConfigSizes:
        half = int(units.head_width * share) // 2
        third = max(1, half // 3)
        angles = {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [half - 2 * third, third, third],
        }
        return angles if share == 1.0 else {**angles, "partial_rotary_factor": share}

    return {"rope_parameters": build_rope_parameters}


def alternate_layer_kinds(*kinds: str, fewest: int = 0) -> Callable[[TinySizeUnits], list[str]]:
    """The kinds of all layers, alternating."""
    return lambda units: [kinds[layer % len(kinds)] for layer in range(max(fewest, units.layers))]


COMPUTED: Mapping[str, Overrides] = {
    "deepseek_ocr2_text": {"mlp_layer_types": alternate_layer_kinds("dense", "sparse")},
    "glm4v_moe_text": make_rotary_sections_override(0.5),
    "gpt_neo": {
        "attention_types": lambda units: [
            [[kind], 1] for kind in alternate_layer_kinds("global", "local")(units)
        ]
    },
    "granitemoehybrid": {
        "layer_types": alternate_layer_kinds("linear_attention", "full_attention")
    },
    "lfm2": {"layer_types": alternate_layer_kinds("conv", "full_attention")},
    "lfm2_moe": {"layer_types": alternate_layer_kinds("conv", "full_attention")},
    "zamba": {
        "num_hidden_layers": lambda units: max(4, units.layers),
        "layers_block_type": alternate_layer_kinds("linear_attention", "hybrid", fewest=4),
        "attention_hidden_size": "= 2 * width",
        "attention_head_dim": "= 2 * head_width",
    },
    **{
        f"{kind}_text": make_rotary_sections_override()
        for kind in ("glm4v", "glm_image", "glm_ocr", "hunyuan_vl", "paddleocr_vl")
    },
    **{
        f"qwen2_{kind}": make_rotary_sections_override()
        for kind in ("5_omni_talker", "5_omni_text", "5_vl_text", "vl_text")
    },
}

TABLE = tomllib.loads(
    (files("attncli.models.random") / "tiny_overrides.toml").read_text(encoding="utf-8")
)

CONVOLUTIONAL = frozenset(TABLE.pop("convolutional"))
"""Small types whose widths are tied to each other by tables: their sizes stay."""


def merge_tiny_config_overrides() -> dict[str, dict[str, Any]]:
    """The table's entries by model type, with those that are computed."""
    found: dict[str, dict[str, Any]] = {}
    for name, entry in TABLE.items():
        for kind in entry.pop("types", [name]):
            found.setdefault(kind, {}).update(entry)
    for kind, computed in COMPUTED.items():
        found.setdefault(kind, {}).update(computed)
    return found


OVERRIDES = merge_tiny_config_overrides()
