"""The part of a model's config that is about what it reads."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def text_config(config: "PretrainedConfig") -> "PretrainedConfig":
    """transformers' own answer; where several parts have texts of their own (MusicGen), that of the encoder, which reads."""
    try:
        return config.get_text_config()
    except ValueError:  # its word for "ambiguous"
        return config.get_text_config(encoder=True)
