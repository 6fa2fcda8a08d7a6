"""Read a model's attention from its config.json; settings that are not understood are refused by name."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncli.errors import InputError, UsageError
from attncli.head_weights.attention_kind_counts import PER_LAYER, find_layer_specific_settings
from attncli.head_weights.model_families import HeadFamily, find_model_family
from attncli.maths.rotary_embedding import Rotary
from attncli.models.files.config_checks import read_config_json, refuse_oversized_config_values
from attncli.records import Facts

LARGEST_SIZE = 2**31
"""The largest count in a config."""
OF_MLPS = frozenset({"intermediate_size", "hidden_act", "mlp_bias"})
ROTARY_BASE = 10_000.0
"""transformers' default where the config has none."""


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """The config of a known family."""

    path: Path
    settings: Facts
    family: HeadFamily

    @classmethod
    def read_config(cls, folder: Path) -> "HeadConfig":
        """Read the folder's config.json; refuse it where its weights are not laid out as the family's are."""
        path = folder / "config.json"
        return cls.from_config_settings(path, read_config_json(folder))

    @classmethod
    def from_config_settings(cls, path: Path, settings: Facts) -> "HeadConfig":
        """Wrap a parsed config.json, or the config of an in-memory model."""
        config = cls(path, settings, find_model_family(str(path), settings))
        refuse_oversized_config_values(str(path), settings)
        config.refuse_unsupported_weight_layouts()
        return config

    @property
    def model_type(self) -> str:
        return str(self.settings["model_type"])

    @property
    def layer_count(self) -> int:
        return self.read_size_setting(self.family.layers)

    @property
    def head_count(self) -> int:
        return self.read_size_setting(self.family.heads)

    @property
    def key_head_count(self) -> int:
        """The number of key heads, fewer than query heads under grouped-query attention."""
        values = self.settings.get("num_key_value_heads")
        return self.head_count if values is None else self.read_size_setting("num_key_value_heads")

    @property
    def hidden_size(self) -> int:
        return self.read_size_setting(self.family.hidden_size)

    @property
    def key_head_width(self) -> int:
        values = self.settings.get("head_dim")
        return (
            self.hidden_size // self.head_count
            if values is None
            else self.read_size_setting("head_dim")
        )

    def read_size_setting(self, name: str) -> int:
        value = self.settings.get(name)
        if type(value) is not int or not 1 <= value <= LARGEST_SIZE:
            raise InputError(f"{self.path} has no usable {name}: {value!r}.")
        return value

    def layer_index_in_tensor_names(self, layer: int) -> int:
        """The index in the layer's tensor names: ALBERT's layers share a group's weights."""
        values = self.settings.get("num_hidden_groups")
        groups = self.layer_count if values is None else self.read_size_setting("num_hidden_groups")
        return int(layer / (self.layer_count / groups))

    def logit_scale(self, layer: int) -> float:
        """The scale of the logits: 1 / √d, except for GPT-2's switches."""
        scale = (
            1.0 / math.sqrt(self.key_head_width)
            if self.settings.get("scale_attn_weights", True)
            else 1.0
        )
        by_layer = self.settings.get("scale_attn_by_inverse_layer_idx", False)
        return scale / (layer + 1) if by_layer else scale

    def find_window_of_layer(self, layer: int) -> int | None:
        """How many keys a query of this layer sees, where the model has sliding windows."""
        size = self.settings.get("sliding_window")
        kinds = self.settings.get("layer_types")
        full = isinstance(kinds, list) and layer < len(kinds) and kinds[layer] == "full_attention"
        if not isinstance(size, int) or self.settings.get("use_sliding_window") is False or full:
            return None
        return size

    def read_rotary_embedding(self) -> Rotary | None:
        """Base and width of the rotary positions; scaled variants are refused."""
        if not self.family.rotary:
            return None
        rope = self.settings.get("rope_parameters") or self.settings.get("rope_scaling") or {}
        if not isinstance(rope, dict):
            raise InputError(f"{self.path} describes rotary positions by {rope!r}, which is none.")
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default" or any(isinstance(value, dict) for value in rope.values()):
            raise UsageError(
                f"{self.path}: rotary positions of type '{kind}' cannot be undone here, only 'default' ones."
            )
        base = find_first_non_null_rope_value(rope, self.settings, "rope_theta", "rotary_emb_base")
        base = ROTARY_BASE if base is None else base
        share = find_first_non_null_rope_value(
            rope, self.settings, "partial_rotary_factor", "rotary_pct"
        )
        share = self.family.rotary if share is None else share
        width = int(
            self.key_head_width
            * self.require_positive_setting("a share of rotary features", share, 1.0)
        )
        return Rotary(self.require_positive_setting("rope_theta", base, math.inf), width)

    def require_positive_setting(self, name: str, value: object, most: float) -> float:
        """Require a number above 0, within the largest size."""
        largest = min(most, sys.float_info.max)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= largest:
            return float(value)
        raise InputError(f"{self.path} has no usable {name}: {value!r}.")

    def refuse_unsupported_weight_layouts(self) -> None:
        for name in (self.family.layers, self.family.heads, self.family.hidden_size):
            self.read_size_setting(name)
        if (self.settings.get("inner_group_num") or 1) != 1:
            raise UsageError(f"{self.path}: inner_group_num above 1 is not read here.")
        if self.settings.get("do_layer_norm_before") is False:
            raise UsageError(f"{self.path}: OPT with its norm after the skip is not read here.")
        self.refuse_attention_sizes_that_differ_by_layer()
        if self.head_count % self.key_head_count:
            raise InputError(
                f"{self.path}: {self.head_count} heads do not share {self.key_head_count} key heads."
            )

    def refuse_attention_sizes_that_differ_by_layer(self) -> None:
        """Refuse attention sizes that differ between layers: one number for all is read."""
        names = {
            name for layer in find_layer_specific_settings(self.settings) for name in layer
        } - OF_MLPS
        if names:
            raise UsageError(
                f"{self.path}: {PER_LAYER} gives layers their own {min(names)}, which is not read here."
            )

    def refuse_unsupported_logit_terms(self) -> None:
        """Refuse logits that are not simply scaled products of queries and keys."""
        if self.family.logits:
            raise UsageError(
                f"model type '{self.model_type}' ({self.path}) cannot be used: {self.family.logits}."
            )
        positions = self.settings.get("position_embedding_type") or "absolute"
        if positions != "absolute":
            raise UsageError(
                f"{self.path}: position_embedding_type '{positions}' adds terms to the logits that are not read here."
            )
        if self.settings.get("is_decoder"):
            raise UsageError(
                f"{self.path}: is_decoder masks an encoder's keys, which is not read here."
            )


def find_first_non_null_rope_value(rope: Facts, config: Facts, *names: str) -> Any:
    """The first value that is set: newer configs nest these, older ones use other names."""
    values = [
        table[name] for name in names for table in (rope, config) if table.get(name) is not None
    ]
    return values[0] if values else None
