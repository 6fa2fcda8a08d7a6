"""The config of the part of a model that reads its input."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def text_config(config: "PretrainedConfig") -> "PretrainedConfig":
    """The text config by transformers' own method; where several parts have one (MusicGen), the encoder's, which reads."""
    try:
        return config.get_text_config()
    except ValueError:  # transformers' error for an ambiguous text config
        return config.get_text_config(encoder=True)
