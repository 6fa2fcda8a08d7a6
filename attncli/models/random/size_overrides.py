"""Words for sizes that every model type understands, and any config attribute by its own name.

`layers`, `width`, `heads`, `kv-heads`, `mlp-width` and `vocab` apply under each config's own names; where a model has
several stacks or nested configs, to all of them. `text_config.num_hidden_layers` names one attribute.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from transformers import PreTrainedConfig

from attncli.errors import LimitError, UsageError, make_unknown_name_error
from attncli.models.files.config_checks import refuse_oversized_config_values
from attncli.models.layer_sizes_from_config import read_config_value

ConfigSizes = Mapping[str, Any]
"""Attributes by dotted name."""

WORDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "layers": (
        ("encoder_layers", "decoder_layers"),
        ("num_layers", "num_decoder_layers"),
        ("encoder_num_hidden_layers", "decoder_num_hidden_layers"),
        ("num_hidden_layers",),
        ("n_layer",),
        ("n_layers",),
        ("depth",),
        ("layers",),
    ),
    "width": (("d_model",), ("hidden_size",), ("n_embd",), ("embed_dim",), ("dim",), ("emb_dim",)),
    "heads": (
        ("encoder_attention_heads", "decoder_attention_heads"),
        ("encoder_num_attention_heads", "decoder_num_attention_heads"),
        ("num_attention_heads",),
        ("num_heads",),
        ("n_head",),
        ("n_heads",),
    ),
    "kv-heads": (
        ("encoder_num_key_value_heads", "decoder_num_key_value_heads"),
        ("num_key_value_heads",),
        ("num_kv_heads",),
    ),
    "mlp-width": (
        ("encoder_ffn_dim", "decoder_ffn_dim"),
        ("intermediate_size",),
        ("d_ff",),
        ("n_inner",),
        ("d_inner",),
        ("ffn_dim",),
        ("mlp_dim",),
        ("hidden_dim",),
    ),
    "vocab": (("vocab_size",), ("n_vocab",)),
}
"""For each word, groups of names that belong together; the first group that a config has applies."""

WHOLE = "a whole number"


def resolve_config_size_names(
    arch: str, config: PreTrainedConfig, sizes: Mapping[str, Any]
) -> ConfigSizes:
    """Resolve words to the config's own dotted names, with values of the attributes' types that some model could have."""
    own = dict(iter_config_attributes(config))
    resolved: dict[str, Any] = {}
    for name, value in sizes.items():
        paths = find_config_attributes_by_name(config, own, name)
        if not paths:
            known = {
                *(word for word in WORDS if find_config_attributes_by_name(config, own, word)),
                *own,
                "tiny",
            }
            raise make_unknown_name_error(f"size of model type '{config.model_type}'", name, known)
        resolved |= {path: convert_size_to_attribute_type(name, value, own[path]) for path in paths}
    refuse_oversized_config_values(f"random:{arch}", resolved, LimitError)
    return resolved


def iter_config_attributes(config: PreTrainedConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over every attribute by its dotted name, nested configs' included."""
    for name, value in vars(config).items():
        if name.startswith("_"):
            continue
        if isinstance(value, PreTrainedConfig):
            yield from iter_config_attributes(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def find_config_attributes_by_name(
    config: PreTrainedConfig, own: ConfigSizes, name: str
) -> list[str]:
    """The dotted names of the attributes that a word or name means."""
    word = name.replace("_", "-")
    if word in WORDS:
        return find_config_attributes_of_size_word(config, word, "")
    name = config.attribute_map.get(name, name)
    return [name] if name in own else []


def find_config_attributes_of_size_word(
    config: PreTrainedConfig, word: str, prefix: str
) -> list[str]:
    """The config's own names for a word, or those of the configs nested in it."""
    own = vars(config)
    for group in WORDS[word]:
        found = [prefix + name for name in group if name in own]
        if found:
            return found
    return [
        path
        for name, value in own.items()
        if isinstance(value, PreTrainedConfig)
        for path in find_config_attributes_of_size_word(value, word, f"{prefix}{name}.")
    ]


def convert_size_to_attribute_type(name: str, value: object, present: object) -> Any:
    """Convert a value to the type of the attribute's present value; for None, the type that the text looks like."""
    if isinstance(present, (list, tuple)) and present:
        return [
            convert_size_to_attribute_type(name, part, present[0]) for part in str(value).split(",")
        ]
    if isinstance(present, bool):
        return parse_bool(name, value)
    if isinstance(present, str):
        return str(value)
    if present is None:
        return guess_size_type(value)
    if isinstance(present, float):
        return parse_size_as_number(name, value, "a number")
    number = parse_size_as_number(name, value, WHOLE)
    if not number.is_integer():
        raise UsageError(f"{name}={value} is not {WHOLE}.")
    if name in WORDS and number < 1:
        raise UsageError(f"{name}={value}: a model needs at least 1.")
    return value if isinstance(value, int) else int(number)


def parse_size_as_number(name: str, value: Any, what: str) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise UsageError(f"{name}={value} is not {what}.") from None


def guess_size_type(value: Any) -> Any:
    """Guess the type of a size that is None now: the number that its text looks like."""
    for kind in (int, float):
        try:
            return value if isinstance(value, float) else kind(value)
        except ValueError:
            continue
    return value


def parse_bool(name: str, value: object) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).lower() not in words:
        raise UsageError(f"{name}={value}: write true or false.")
    return words[str(value).lower()]


def require_width_divisible_by_heads(config: PreTrainedConfig) -> None:
    """Check that heads divide the width, and key heads the heads: many models would silently round."""
    nested = [value for value in vars(config).values() if isinstance(value, PreTrainedConfig)]
    for inner in nested:
        require_width_divisible_by_heads(inner)
    width, heads, key_heads = (
        read_config_size_or_zero(config, name)
        for name in ("hidden_size", "num_attention_heads", "num_key_value_heads")
    )
    if heads and width and "head_dim" not in vars(config) and width % heads:
        raise UsageError(
            f"a width of {width} is not divisible by {heads} heads: choose another width or number of heads."
        )
    if heads and key_heads and heads % key_heads:
        raise UsageError(
            f"{heads} heads cannot share {key_heads} key heads: choose kv-heads that divides heads."
        )


def read_config_size_or_zero(config: PreTrainedConfig, name: str) -> int:
    """A size of the config, 0 where it has none."""
    value = read_config_value(config, name)
    return value if isinstance(value, int) else 0


def apply_sizes_to_config(
    config: PreTrainedConfig, sizes: ConfigSizes, prefix: str = ""
) -> PreTrainedConfig:
    """Set sizes in the config, and recompute what its class derives from them."""
    fresh = vars(type(config)())
    values: dict[str, Any] = {}
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            values[name] = apply_sizes_to_config(value, sizes, f"{prefix}{name}.")
        elif prefix + name in sizes:
            values[name] = sizes[prefix + name]
        elif not name.startswith("_") and value != fresh.get(name):
            values[name] = value
    return type(config)(**values)
