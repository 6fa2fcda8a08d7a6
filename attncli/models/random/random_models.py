"""`random:ARCH`: any model type of transformers with seeded random weights, drawn as the type's own class draws them.

The type's default config is taken where it is small enough, a tiny one otherwise or on request (`?tiny`); sizes
may be given by words that every type understands (`layers`, `width`, …) or by any attribute of the config.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import gcd
from typing import NamedTuple

import torch
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

from attncli.errors import (
    AttnError,
    InputError,
    LimitError,
    UsageError,
    is_memory_error,
    require_known_names,
)
from attncli.maths.number_format import format_short_number
from attncli.models.layer_sizes_from_config import select_text_config
from attncli.models.library_errors import (
    describe_division_by_config_size,
    find_missing_library_name,
)
from attncli.models.model_classes import iter_body_classes, iter_nested_configs, make_no_class_error
from attncli.models.precision import cast_model_to_dtype
from attncli.models.quiet_libraries import silence_libraries
from attncli.resource_limits import require_memory

LARGEST_DEFAULT = 250_000_000
"""Parameters up to which a type's own default config is taken: BERT, GPT-2 and Whisper, but no Llama."""

MOST_LAYERS = 1000
DRAWN = 8
"""Bytes per number while weights are drawn in float32 and copied."""

Size = str | int | float


class RandomModel(NamedTuple):
    """A random model, and how its sizes were chosen."""

    model: PreTrainedModel
    tiny: bool
    """Whether its sizes are small ones instead of the type's defaults."""
    note: str
    """One sentence about that, for the report; empty if the user chose."""


def build_model(
    arch: str, sizes: Mapping[str, Size], seed: int, dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """Build the model of a type; see `make_random_model`."""
    return make_random_model(arch, sizes, seed, dtype).model


def make_random_model(
    arch: str, sizes: Mapping[str, Size], seed: int, dtype: torch.dtype = torch.float32
) -> RandomModel:
    """Make a model in eval mode without gradients; the same seed gives the same weights, rounded to the dtype."""
    require_known_names("model type", [arch], CONFIG_MAPPING.keys())
    refuse_too_many_layers(arch, sizes)
    with translate_build_errors(arch, sizes), silence_libraries():
        config, tiny, note = make_config_with_sizes(arch, sizes)
        model, change_note = initialise_model_or_text_part(config, seed)
        cast_model_to_dtype(model, dtype)
        if dtype == torch.float64:
            model.set_experts_implementation("eager")  # the grouped product has no float64 kernel
        return RandomModel(model, tiny, f"{note} {change_note}".strip())


def initialise_model_or_text_part(
    config: PreTrainedConfig, seed: int
) -> tuple[PreTrainedModel, str]:
    """Draw the model, or its text part if a library that another part needs is missing; add a note about that."""
    whole = find_config_with_model_class(config)
    try:
        model = initialise_random_model(whole, seed)
    except ImportError as error:
        text = find_text_config(whole)
        if text is None:
            raise
        needed = (
            f"{config.model_type} needs {find_missing_library_name(error)}, which is not installed"
        )
        return initialise_random_model(text, seed), f"{needed}: its text model alone was built."
    return (
        model,
        "" if whole is config else f"Of {config.model_type}, {whole.model_type} was built.",
    )


def find_text_config(config: PreTrainedConfig) -> PreTrainedConfig | None:
    """Find the text config, where the config has others too, and a model class for it."""
    text = select_text_config(config)
    return text if text is not config and any(iter_body_classes(text)) else None


def find_config_with_model_class(config: PreTrainedConfig) -> PreTrainedConfig:
    """The config, or the first nested one with a model class where transformers has none for the whole."""
    nested = [value for value in vars(config).values() if isinstance(value, PreTrainedConfig)]
    return next((each for each in (config, *nested) if any(iter_body_classes(each))), config)


def refuse_too_many_layers(arch: str, sizes: Mapping[str, Size]) -> None:
    """Refuse too many layers: they are built one by one."""
    layers = sizes.get("layers", 1)
    if isinstance(layers, int) and layers > MOST_LAYERS:
        raise LimitError(
            f"random:{arch}?layers={layers} would take minutes to build: choose at most {MOST_LAYERS:,}."
        )


def make_config_with_sizes(
    arch: str, sizes: Mapping[str, Size]
) -> tuple[PreTrainedConfig, bool, str]:
    """Make the config with the given sizes; return whether other sizes are tiny, and a note if that was not requested."""
    sizes = dict(sizes)
    if sizes.pop("tiny", None) is not None:
        return make_tiny_config(arch, sizes), True, ""
    config = CONFIG_MAPPING[arch]()
    if sizes:
        from attncli.models.random.size_overrides import (
            apply_sizes_to_config,
            require_width_divisible_by_heads,
            resolve_config_size_names,
        )

        resolved = resolve_config_size_names(arch, config, sizes)
        try:
            config = apply_sizes_to_config(config, resolved)
        except AttnError:
            raise
        except Exception:  # such as a list of another length; the tiny config then reports what does not fit it either
            note = f"{arch}'s own sizes do not go with these: sizes that you do not set are tiny instead."
            return make_tiny_config(arch, sizes), True, note
        require_width_divisible_by_heads(config)
    config = set_missing_image_token(config)
    try:
        count = count_parameters(config)
    except ImportError as error:
        why = f"need {find_missing_library_name(error)}, which is not installed"
    else:
        if count is not None and count <= LARGEST_DEFAULT:
            return config, False, ""
        why = (
            "cannot be built"
            if count is None
            else f"make {format_short_number(count, 2)} parameters"
        )
    note = f"{arch}'s own sizes {why}: sizes that you do not set are tiny instead."
    return make_tiny_config(arch, sizes), True, note


def set_missing_image_token(config: PreTrainedConfig) -> PreTrainedConfig:
    """Use the last id for image positions where BLIP-2 and related types leave it open, and fail without it."""
    if "num_query_tokens" in vars(config):
        vocabulary = select_text_config(config).vocab_size
        for name in ("image_token_index", "video_token_index"):
            if vars(config).get(name, 0) is None:
                setattr(config, name, vocabulary - 1)
    return config


def make_tiny_config(arch: str, sizes: Mapping[str, Size]) -> PreTrainedConfig:
    """Make the type's tiny config; sizes given by a word scale all others."""
    from attncli.models.random.size_overrides import (
        require_width_divisible_by_heads,
        resolve_config_size_names,
    )
    from attncli.models.random.tiny_configs import shrink_default_config
    from attncli.models.random.tiny_sizes import TinySizeUnits

    resolved = resolve_config_size_names(arch, CONFIG_MAPPING[arch](), sizes)
    words = {
        UNITS[name.replace("_", "-")]: int(value)
        for name, value in sizes.items()
        if name.replace("_", "-") in UNITS
    }
    if "heads" in words:
        words.setdefault("key_heads", gcd(words["heads"], TinySizeUnits().key_heads))
    config = shrink_default_config(arch, replace(TinySizeUnits(), **words), resolved)
    require_width_divisible_by_heads(config)
    try:
        count = count_parameters(config) or 0
    except ImportError:  # reported where the model is built
        count = 0
    require_memory(DRAWN * count, f"random:{arch} of {count:,} numbers", "choose smaller sizes")
    return config


UNITS = {
    "layers": "layers",
    "width": "width",
    "heads": "heads",
    "kv-heads": "key_heads",
    "mlp-width": "mlp_width",
    "vocab": "vocabulary",
}
"""The unit that each word sets."""


def count_parameters(config: PreTrainedConfig) -> int | None:
    """Count parameters without memory; None where the class cannot be built. A missing library is an ImportError."""
    try:
        config = find_config_with_model_class(config)
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            model = build_first_working_model_class(config, lambda found: found(config))
    except ImportError:
        raise
    except Exception:  # whatever the class raises: the tiny config that is tried next reports why
        return None
    tensors = (*model.parameters(), *model.buffers())
    return sum(tensor.numel() for tensor in tensors)


def initialise_random_model(config: PreTrainedConfig, seed: int) -> PreTrainedModel:
    """Draw the body with its class's own initialisation; `_from_config` also runs for classes unknown to AutoModel."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_first_working_model_class(config, lambda found: found._from_config(config))  # type: ignore[no-untyped-call]
    for nested in iter_nested_configs(config):
        if hasattr(nested, "use_cache"):
            nested.use_cache = False  # one forward pass: nothing to cache
    model.eval()  # type: ignore[no-untyped-call]
    model.requires_grad_(False)
    return model


def build_first_working_model_class(
    config: PreTrainedConfig, make: Callable[[type[PreTrainedModel]], PreTrainedModel]
) -> PreTrainedModel:
    """Build the body's class, or the next one if that fails on its own config, as Musicgen's does."""
    failure: AttributeError | None = None
    for found in iter_body_classes(config):
        try:
            return make(found)
        except AttributeError as error:
            failure = error
    raise failure or make_no_class_error(config)


@contextmanager
def translate_build_errors(arch: str, sizes: Mapping[str, Size]) -> Iterator[None]:
    """Translate whatever a config or model class raises into one sentence."""
    try:
        yield
    except (AttnError, MemoryError):
        raise
    except ImportError as error:
        raise InputError(
            f"model type '{arch}' needs {find_missing_library_name(error)}, which is not installed: install it or choose another type."
        ) from error
    except Exception as error:
        if is_memory_error(error):
            raise LimitError(
                f"random:{arch} does not fit into the memory at these sizes: choose smaller ones."
            ) from error
        if isinstance(error, ZeroDivisionError):
            note = describe_division_by_config_size(error)
        else:
            note = " ".join(str(error.__cause__ or error).split()).rstrip(".")
        if set(sizes) - {"tiny"}:
            raise UsageError(f"random:{arch} cannot have these sizes: {note}.") from error
        raise InputError(
            f"model type '{arch}' cannot be built from its config alone: {note}."
        ) from error
