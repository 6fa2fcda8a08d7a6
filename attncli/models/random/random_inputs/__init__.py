"""Makers of inputs: one per argument name of a forward, or by a name's ending."""

import re
from collections.abc import Mapping
from importlib import import_module

from attncli.models.random.random_inputs.input_sampler import (
    InputSampler,
    Maker,
    sample_feature_sequence,
)

FAMILIES = ("text", "images", "sound", "states_and_time_series")
"""The files of makers, each with a table MAKERS; those of what a model does not read are not imported."""


def find_input_maker(name: str) -> Maker | None:
    """Find the maker for a name; None where no maker knows it."""
    for family in FAMILIES:
        makers: Mapping[str, Maker] = import_module(f"{__name__}.{family}").MAKERS
        if name in makers:
            return makers[name]
    return find_input_maker_by_name_ending(name)


def find_input_maker_by_name_ending(name: str) -> Maker | None:
    """Find it by the end of the name, what transformers' forwards mean by it."""
    from attncli.models.random.random_inputs.images import make_image
    from attncli.models.random.random_inputs.text import make_all_ones_or_causal_mask

    endings: Mapping[str, Maker] = {
        r"\w+_input_ids": lambda drawn: drawn.sample_token_ids(64, 1, drawn.tokens),
        r"\w+_attention_mask": make_all_ones_or_causal_mask,
        r"\w+_pixel_values|\w+_masks": make_image,
        r"\w+_(embeds|embeddings|features|hidden_states?|states|queries|pos_encoding)": sample_feature_sequence,
    }
    found = (maker for ending, maker in endings.items() if re.fullmatch(ending, name))
    return next(found, None)


__all__ = ["InputSampler", "Maker", "find_input_maker"]
