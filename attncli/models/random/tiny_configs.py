"""Tiny configs: any model type's default config with every size made small and every kind of layer kept.

Nested configs are shrunk by the same rules, so that widths which must agree still do. Exceptions for single types are in
`tiny_overrides`, with their reasons.
"""

import dataclasses
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from attncli.models.model_classes import iter_nested_configs
from attncli.models.random.size_overrides import ConfigSizes
from attncli.models.random.tiny_overrides import CONVOLUTIONAL, OVERRIDES
from attncli.models.random.tiny_sizes import (
    TinySizeUnits,
    choose_tiny_size,
    compute_size_from_units,
    scale_stage_widths,
)

LAYER_COUNTS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth", "encoder_layers")
"""Names of the number of layers, the usual one first."""
SPECIAL_TOKEN = re.compile(r".*(_token_id|_token_index)s?|(pad|bos|eos|unk|mask)_index")
LAYER_INDICES = re.compile(
    r".*(index(es)?|indices|idxs?|_layers|layer_ids?|hook_ids|_blocks|vision_feature_layer)"
)
"""Attributes that list layers by index."""
SPECIAL_LAYERS = {"cross_attention_layers"}
"""Lists of indices of special layers, of which one must stay."""
STAGE_WIDTHS = re.compile(r".*(hidden_sizes|embed_dims?|dim_per_stage|channel_list)|conv_dim")
OF_CONVOLUTIONS = re.compile(r"conv_(?!dim).*")
"""Kernels and strides of audio convolutions, which set how many samples a token covers."""
STAGE_DEPTHS = re.compile(r"depths?|.*(num_blocks|blocks_per_stage|numb_of_layers|repeats)")
TIMM_BACKBONE = "timm_backbone"
IMAGE_SIDES = re.compile(r"(pretrain_)?image_size|img_size|input_resolution")
COMMON = {field.name for field in dataclasses.fields(PreTrainedConfig)} | {"stage_names"}
"""Attributes that every config has: none is a size of the network."""


def shrink_default_config(arch: str, units: TinySizeUnits, sizes: ConfigSizes) -> PreTrainedConfig:
    """Make a model type's config with sizes from `units`; `sizes` attributes (dotted: nested) override every rule."""
    return ConfigShrinker(units, sizes).shrink_config(CONFIG_MAPPING[arch](), "")


class ConfigShrinker:
    """Shrinks a config and those nested in it, which share the ids of special tokens."""

    def __init__(self, units: TinySizeUnits, sizes: ConfigSizes) -> None:
        self.units = units
        self.sizes = sizes
        self.ids: dict[int, int] = {}

    def shrink_config(self, config: PreTrainedConfig, prefix: str) -> PreTrainedConfig:
        """Make a new config of the same class, whose own checks run again."""
        overrides = self.find_overrides_of_config(config, prefix)
        if config.model_type in CONVOLUTIONAL:
            return type(config)(**overrides) if overrides else config
        layers = self.select_layer_indices(config, overrides)
        own = vars(config)
        names = [field.name for field in dataclasses.fields(config) if field.name in own]
        values = {
            name: self.shrink_config_value(config, prefix + name, own[name], layers)
            for name in names
            if name not in COMMON and name not in overrides
        }
        return type(config)(**values, **keep_all_backbone_stages(config, len(layers)), **overrides)

    def find_overrides_of_config(self, config: PreTrainedConfig, prefix: str) -> ConfigSizes:
        """Attributes of this config that skip the rules: overridden ones and those that the user gave."""
        overridden = {
            name: compute_size_from_units(value, self.units)
            for name, value in OVERRIDES.get(config.model_type or type(config).__name__, {}).items()
        }
        counts = {
            path.removeprefix(prefix): value
            for path, value in self.sizes.items()
            if path.startswith(prefix) and "." not in path.removeprefix(prefix)
        }
        return overridden | counts

    def select_layer_indices(self, config: PreTrainedConfig, settings: ConfigSizes) -> list[int]:
        """Indices of the layers that stay: as many as given, else the first of each kind and enough others."""
        count = read_layer_count(config)
        if count == 0:
            return []
        counts = [settings[name] for name in LAYER_COUNTS if name in settings]
        if counts:
            return [layer % count for layer in range(counts[0])]
        stages = [] if "depths" in vars(config) else vars(config).get("_out_indices") or []
        if len(stages) > 1:
            return list(range(len(stages)))
        layers = find_first_layer_of_each_kind(config, count)
        others = [layer for layer in range(count) if layer not in layers]
        return sorted(layers + others[: max(0, self.units.layers - len(layers))])

    def shrink_config_value(
        self, config: PreTrainedConfig, path: str, value: Any, layers: Sequence[int]
    ) -> Any:
        """The small value of one attribute."""
        name = path.rpartition(".")[2]
        if isinstance(value, PreTrainedConfig):
            return self.shrink_config(replace_timm_backbone(config, name, value), f"{path}.")
        if isinstance(value, dict):
            return {
                key: self.shrink_config_value(config, str(key), inner, layers)
                for key, inner in value.items()
            }
        if name == "backbone_feature_sizes":
            return compute_feature_map_sizes(config, value)
        if isinstance(value, (list, tuple)) and not OF_CONVOLUTIONS.fullmatch(name):
            return type(value)(self.shrink_config_list(config, name, value, layers))
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        if SPECIAL_TOKEN.fullmatch(name):
            return self.move_token_id_into_vocabulary(value)
        if IMAGE_SIDES.fullmatch(name):
            return choose_tiny_image_side(config, value)
        if name in LAYER_COUNTS and len(layers) > 0 and value == read_layer_count(config):
            return len(layers)
        if "depths" in vars(config) and name in ("embed_dim", "window_size"):
            return 2 if name == "window_size" else choose_first_stage_width(config, value)
        if name == "num_key_value_heads" and value == vars(config).get("num_attention_heads"):
            return min(value, self.units.heads)
        return choose_tiny_size(name, value, self.units)

    def shrink_config_list(
        self, config: PreTrainedConfig, name: str, values: Sequence[Any], indices: Sequence[int]
    ) -> Sequence[Any]:
        """Shrink a list: one entry per layer, layer indices, widths, or depths of stages."""
        integers = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
        layers = read_layer_count(config)
        if has_one_entry_per_layer(config, name, values):
            entries = [values[index] for index in indices]
            return [
                choose_tiny_size(name, value, self.units) if integers else value
                for value in entries
            ]
        if name == "mrope_section":
            return self.split_rotary_sections(values)
        if not integers or not values:
            return values
        if SPECIAL_TOKEN.fullmatch(name):
            return [self.move_token_id_into_vocabulary(value) for value in values]
        if STAGE_DEPTHS.fullmatch(name):
            return [min(value, self.units.layers) for value in values]
        if LAYER_INDICES.fullmatch(name):
            numbers = sorted(
                {value * len(indices) // layers if layers else value for value in values}
            )
            everywhere = name in SPECIAL_LAYERS and 1 < len(numbers) == len(indices)
            return numbers[1:] if everywhere and len(values) < layers else numbers
        if IMAGE_SIDES.fullmatch(name):
            small = choose_tiny_image_side(config, min(values))
            return [value // min(values) * small for value in values]
        if STAGE_WIDTHS.fullmatch(name):
            return scale_stage_widths(values, self.units.width)
        return values

    def split_rotary_sections(self, values: Sequence[int]) -> list[int]:
        """Split the rotary angles of one head between time, rows and columns."""
        half = self.units.head_width // 2
        rest = [max(1, half * value // sum(values)) for value in values[1:]]
        return [half - sum(rest), *rest]

    def move_token_id_into_vocabulary(self, value: int) -> int:
        """Move ids outside the small vocabulary to its end, equal ids to equal new ones."""
        if value < self.units.vocabulary:
            return value
        self.ids.setdefault(value, self.units.vocabulary - 1 - len(self.ids))
        return self.ids[value]


def choose_first_stage_width(config: PreTrainedConfig, width: int) -> int:
    """The width of the first stage, which later ones double: a share that its heads divide."""
    heads = vars(config).get("num_heads")
    first = heads[0] if isinstance(heads, (list, tuple)) else 1
    shares = (width // parts for parts in (4, 5, 3, 2) if width % parts == 0)
    return next((share for share in shares if share % first == 0), width)


def read_layer_count(config: PreTrainedConfig) -> int:
    """The config's number of layers, 0 if it has none under a usual name."""
    counts = (vars(config).get(name) for name in LAYER_COUNTS)
    return next((count for count in counts if isinstance(count, int)), 0)


def keep_all_backbone_stages(config: PreTrainedConfig, layers: int) -> ConfigSizes:
    """Keep all stages of a backbone of which several are read."""
    stages = vars(config).get("_out_indices") or []
    if len(stages) < 2:
        return {}
    if "depths" in vars(config) or not layers:
        return {"out_indices": list(stages)}
    return {"out_indices": list(range(1, layers + 1))}


def has_one_entry_per_layer(config: PreTrainedConfig, name: str, value: object) -> bool:
    """Whether a list has one entry per layer, and is not about the stages of a hierarchy."""
    if not isinstance(value, (list, tuple)) or name in COMMON or "depths" in vars(config):
        return False
    if len(value) != read_layer_count(config) or not value:
        return False
    are_texts = all(isinstance(entry, str) for entry in value)
    return are_texts or (len(value) > 4 and not is_layer_index_list(value))


def is_layer_index_list(values: Sequence[Any]) -> bool:
    """Whether a list holds layer indices: rising whole numbers, even if all layers are listed."""
    integers = all(isinstance(value, int) for value in values)
    return integers and all(before < after for before, after in pairwise(values))


def find_first_layer_of_each_kind(config: PreTrainedConfig, count: int) -> list[int]:
    """Indices of the layers whose entries in the config's lists differ."""
    lists = [
        value
        for name, value in vars(config).items()
        if has_one_entry_per_layer(config, name, value)
    ]
    kinds = [tuple(str(column[layer]) for column in lists) for layer in range(count)]
    return sorted({kind: layer for layer, kind in reversed(list(enumerate(kinds)))}.values())


def compute_feature_map_sizes(
    config: PreTrainedConfig, sides: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Rows and columns of the feature maps that a backbone returns for its tiny image."""
    seen = [
        inner
        for inner in iter_nested_configs(config)
        if inner is not config and hasattr(inner, "image_size")
    ]
    if not seen:
        return [list(each) for each in sides]
    nested = seen[0]
    whole = nested.image_size if isinstance(nested.image_size, int) else nested.image_size[0]
    return [
        [side * choose_tiny_image_side(nested, whole) // whole for side in each] for each in sides
    ]


def choose_tiny_image_side(config: PreTrainedConfig, value: int) -> int:
    """The side of a tiny image: four patches, or 64 pixels where patches are small and stages halve the map."""
    patch = vars(config).get("patch_stride") or vars(config).get("patch_size")
    patch = patch[0] if isinstance(patch, (list, tuple)) else patch
    if not isinstance(patch, int) or value % patch:
        return min(value, 64)
    return min(value, 4 * patch if patch >= 8 else 64 // patch * patch)


def replace_timm_backbone(
    config: PreTrainedConfig, name: str, nested: PreTrainedConfig
) -> PreTrainedConfig:
    """Keep a nested config, but for a backbone of timm the class's own default of transformers, read at the same stages."""
    if nested.model_type != TIMM_BACKBONE:
        return nested
    spec = getattr(type(config), "sub_configs_defaults", {}).get(name)
    if spec is None or spec.model_type == TIMM_BACKBONE:
        return nested
    arguments = dict(spec.init_kwargs)
    # the last stage alone, where the class reads several of timm's
    if arguments.pop("out_features", None):
        arguments["out_indices"] = list(nested.out_indices)
    return CONFIG_MAPPING[spec.model_type](**arguments)
