"""Count a model's kinds of attention, from its config and the names of its tensors alone, whatever its family."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from attncli.records import Facts

LAYER = re.compile(r"(?:^|.*\.)\d+(?=\.)")
"""The path up to a layer's number; greedy, so that the innermost counts."""
QUERY_NORM = re.compile(r"\.(q|query)_?(layer_?)?norm\.")
SINKS = re.compile(r"\.(attention_)?sinks?(_[a-z]+)?$")
GATE = re.compile(r"\.[^.]*att[^.]*\.(.*[._])?gate(s|_proj)?(\.|$)", re.IGNORECASE)

WORDS = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "key_heads": ("num_key_value_heads", "num_kv_heads"),
}
"""Config names for the same quantity."""
PER_LAYER = "per_layer_config"
"""Where configs list what single layers have instead of what all have."""
OF_LAYERS = ("layer_types", "layers_block_type", "attention_layers")
"""Where configs list a word for each layer."""
KINDS = {"global": "full", "local": "sliding", "attention": "full", "mamba": "linear"}
"""Older words for kinds of layers, in today's."""
WITHOUT_ATTENTION = ("linear", "conv", "recurrent", "mlp", "moe")
"""Kinds of layers that have no attention."""
ALL_SLIDE = ("mistral", "mixtral", "phi3", "starcoder2")
"""Model types of which every layer has the config's window; others may alternate silently."""


@dataclass(frozen=True, slots=True)
class AttentionLayerCounts:
    """Counts; None where the config does not say."""

    layers: int | None
    heads: int | None
    key_heads: int | None
    kinds: Mapping[str, int]
    """How many layers are full, sliding, linear …; empty where the layers are unknown."""
    window: int | None
    """Keys that a query of a sliding layer sees."""
    qk_norm: int
    """Layers with normalised queries and keys."""
    sinks: int
    """Layers with learned sink logits."""
    gates: int
    """Layers with a gate in their attention."""

    @property
    def queries_per_key_head(self) -> float | None:
        """Query heads for each key head: 1 without grouped queries."""
        if not self.heads or not self.key_heads:
            return None
        return self.heads / self.key_heads

    def describe_layer_counts(self) -> str:
        """One line: `30 layers (30 full) of 9 heads, 3 for each key head`."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        parts = [
            f"{self.layers or '?'} layers"
            + (f" ({kinds})" if kinds else "")
            + f" of {self.heads or '?'} heads"
        ]
        if self.queries_per_key_head not in (None, 1.0):
            parts.append(f"{self.queries_per_key_head:g} for each key head")
        if self.window is not None and self.kinds.get("sliding"):
            parts.append(f"windows of {self.window} keys")
        for count, what in (
            (self.qk_norm, "normalised queries and keys"),
            (self.sinks, "learned sink logits"),
            (self.gates, "gates"),
        ):
            if count:
                parts.append(f"{what} in {count} layer{'' if count == 1 else 's'}")
        return ", ".join(parts)


def count_attention_kinds(config: Facts, tensors: Collection[str]) -> AttentionLayerCounts:
    """`config`: config.json; of a model with several towers, its text model is counted."""
    text = config.get("text_config")
    if isinstance(text, Mapping):
        config = {**config, **text}
    layers, heads = read_config_number(config, "layers"), read_config_number(config, "heads")
    return AttentionLayerCounts(
        layers,
        heads,
        heads if (own := read_config_number(config, "key_heads")) is None else own,
        count_layer_kinds(config, layers),
        read_positive_int(config.get("sliding_window")),
        qk_norm=count_layers_with_tensor(QUERY_NORM, tensors),
        sinks=count_layers_with_tensor(SINKS, tensors),
        gates=layers
        if config.get("attn_output_gate") and layers
        else count_layers_with_tensor(GATE, tensors),
    )


def read_config_number(config: Facts, name: str) -> int | None:
    """The first of a quantity's config names that is set, unless layers differ."""
    if any(word in layer for layer in find_layer_specific_settings(config) for word in WORDS[name]):
        return None
    if name == "key_heads" and config.get("multi_query") is True and "num_kv_heads" not in config:
        return 1
    numbers = [read_positive_int(config.get(word)) for word in WORDS[name]]
    return next((value for value in numbers if value is not None), None)


def find_layer_specific_settings(config: Facts) -> list[Facts]:
    """transformers' config entry for single layers that differ from the others."""
    found = config.get(PER_LAYER)
    return (
        [layer for layer in found.values() if isinstance(layer, dict)]
        if isinstance(found, dict)
        else []
    )


def read_positive_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def count_layer_kinds(config: Facts, layers: int | None) -> dict[str, int]:
    """Counted from the config's list of layers; without one, known where no layer or every layer has a window."""
    listed = next((config[name] for name in OF_LAYERS if isinstance(config.get(name), list)), None)
    if listed is not None:
        return dict(
            Counter(KINDS.get(str(kind), str(kind).removesuffix("_attention")) for kind in listed)
        )
    if layers is None:
        return {}
    if (
        read_positive_int(config.get("sliding_window")) is None
        or config.get("use_sliding_window") is False
    ):
        return {"full": layers}
    return {"sliding": layers} if config.get("model_type") in ALL_SLIDE else {}


def count_listed_layers(config: object) -> tuple[int, int]:
    """How many layers a transformers config lists by kind, and how many of them have attention; 0, 0 without a list."""
    listed = {name: getattr(config, name, None) for name in OF_LAYERS}
    kinds = count_layer_kinds({name: value for name, value in listed.items() if value}, None)
    layers = sum(kinds.values())
    return layers, layers - sum(kinds.get(kind, 0) for kind in WITHOUT_ATTENTION)


def count_layers_with_tensor(pattern: re.Pattern[str], tensors: Collection[str]) -> int:
    """Count the layers with a tensor of such a name."""
    found = (LAYER.match(name) for name in tensors if pattern.search(name))
    return len({layer.group() for layer in found if layer})
