"""The kind of source of a run, as far as it decides which options are valid."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncli.declare.commands import COMMANDS
from attncli.declare.option_applicability import WORDLESS
from attncli.declare.option_declarations import OptionValues
from attncli.model_and_file_sources import MODELS, Source, parse_source

SENSED = ("image_size", "num_channels", "num_mel_bins", "frame_length")
"""Sizes in a config.json that only models of images and sounds have."""
OF_TEXT = re.compile("vocab|text|words|token")
"""Names in the config of a model that reads text, or has a part that does."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """SOURCE, and how a model would be named."""

    source: Source
    named_by: str = "name one as `source`"

    @property
    def kind_for_option_rules(self) -> str:
        return (
            WORDLESS
            if self.source.kind == "folder" and is_config_without_text(self.source.path)
            else self.source.kind
        )


def find_run_source(command: str, values: OptionValues) -> RunSource | None:
    """The subject of a run; None where it does not matter, or where the question refuses the
    SOURCE."""
    if "pattern" in values and "source" not in values:
        return find_model_of_patterns(values["pattern"])
    if "source" not in values or command not in COMMANDS:
        return None
    takes = COMMANDS[command].takes
    if not set(takes) & set(MODELS):  # a report, for which no option depends on the SOURCE
        return None
    source = parse_source(values["source"])
    return RunSource(source) if source.kind in takes else None


def find_model_of_patterns(patterns: Any) -> RunSource:
    """Heads of models may be patterns."""
    from attncli.patterns._head_patterns import parse_model_head

    heads = [head for text in patterns or () if (head := parse_model_head(text)) is not None]
    named_by = "give `pattern='MODEL:LAYER.HEAD:top=4'`"
    return RunSource(Source("hub", heads[0].model) if heads else Source("synthetic"), named_by)


def is_config_without_text(folder: Path) -> bool:
    """Whether the config.json names sizes of images or sounds, and nothing of a text."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # whoever loads it says what is wrong with it
        return False
    if not isinstance(config, dict):
        return False
    return any(name in config for name in SENSED) and not any(map(OF_TEXT.search, config))
