"""Makers of inputs: one per argument name of a forward, or by a name's ending."""

import re
from collections.abc import Mapping

from attncli.models.random.random_inputs.images import IMAGES, make_image
from attncli.models.random.random_inputs.input_sampler import InputSampler, Maker, feature_sequence
from attncli.models.random.random_inputs.sound import SOUND
from attncli.models.random.random_inputs.states_and_time_series import OTHERS
from attncli.models.random.random_inputs.text import TEXT

MAKERS: Mapping[str, Maker] = {**TEXT, **IMAGES, **SOUND, **OTHERS}

ENDINGS: Mapping[str, Maker] = {
    r"\w+_input_ids": lambda drawn: drawn.random_ids(64, 1, drawn.tokens),
    r"\w+_attention_mask": TEXT["attention_mask"],
    r"\w+_pixel_values|\w+_masks": make_image,
    r"\w+_(embeds|embeddings|features|hidden_states?|states|queries|pos_encoding)": feature_sequence,
}
"""By the end of a name, what transformers' forwards mean by it."""


def find_maker(name: str) -> Maker | None:
    """Find the maker for a name; None where no maker knows it."""
    if name in MAKERS:
        return MAKERS[name]
    found = (maker for ending, maker in ENDINGS.items() if re.fullmatch(ending, name))
    return next(found, None)


__all__ = ["MAKERS", "InputSampler", "Maker", "find_maker"]
